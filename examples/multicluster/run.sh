#!/bin/sh
# Starts cluster east, inside it cluster west, links west to east, and runs
# COMMAND (default ./show.sh) against west. Both clusters end with COMMAND.
#
#   ./run.sh [COMMAND [ARG...]]
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- ./show.sh

# The pods of linked clusters need addresses that differ.
issuer() {
	[ -z "${ROOTS:-}" ] || echo "--identity-issuer-dir $ROOTS/east --identity-trust-anchors-file $ROOTS/root.crt"
}
# shellcheck disable=SC2046 # flags, or none
exec linkerd-lite up east $(issuer) --ephemeral --random-ports \
	--identity-trust-domain east.example --pod-cidr 10.11.0.0/16 \
	-- ./west.sh "$@"
