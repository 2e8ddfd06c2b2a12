# Sourced by the shell parts of scripts; setup puts it into each work directory.
set -e
k() { linkerd-lite kubectl "$@"; }
# within SECONDS COMMAND...: wait until COMMAND succeeds; E2E_SLOWNESS multiplies the time.
within() {
	end=$(($(date +%s%N) + $1 * ${E2E_SLOWNESS:-1} * 1000000000)); shift
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
