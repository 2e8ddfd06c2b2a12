#!/bin/sh
# Runs inside east, so KUBECONFIG is that of east: keep it, and start west.
set -eu
EAST_KUBECONFIG=$KUBECONFIG
export EAST_KUBECONFIG
issuer() {
	[ -z "${ROOTS:-}" ] || echo "--identity-issuer-dir $ROOTS/west --identity-trust-anchors-file $ROOTS/root.crt"
}
# shellcheck disable=SC2046 # flags, or none
exec linkerd-lite up west $(issuer) --ephemeral --random-ports \
	--identity-trust-domain west.example --pod-cidr 10.22.0.0/16 \
	-- ./link.sh "$@"
