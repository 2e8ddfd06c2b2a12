#!/bin/sh
# Runs inside east, so KUBECONFIG is that of east: keep it, and start west.
set -eu
EAST_KUBECONFIG=$KUBECONFIG
export EAST_KUBECONFIG
exec linkerd-lite up west --ephemeral --random-ports \
	--identity-trust-domain west.example --pod-cidr 10.22.0.0/16 \
	-- ./link.sh "$@"
