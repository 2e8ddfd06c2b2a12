# Sourced by the shell parts of scripts; setup puts it into each work directory.
set -e
k() { linkerd-lite kubectl "$@"; }
# within SECONDS COMMAND...: wait until COMMAND succeeds; for a minute if the machine is not said to be quiet.
within() {
	seconds=$1; shift
	[ "$LINKERD_LITE_QUIET" = 1 ] || seconds=60
	end=$(($(date +%s%N) + seconds * 1000000000))
	until "$@" >/dev/null 2>&1; do
		[ $(date +%s%N) -lt $end ] || { echo "not in time: $*" >&2; exit 1; }
		sleep 0.05
	done
}
# is KIND/NAME JSONPATH VALUE
is() { [ "$(k get "$1" -o jsonpath="{$2}")" = "$3" ]; }
gone() { [ -z "$(k get "$@" --ignore-not-found -o name)" ]; }
uid() { k get "$1" -o jsonpath='{.metadata.uid}'; }
cm() { printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  v: "%s"\n' "$1" "$2"; }
