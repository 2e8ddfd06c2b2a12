#!/bin/sh
# Asks the control plane three times, as the proxy of mesh/client-0.
set -eu
command -v curl >/dev/null || { echo 'curl is needed' >&2; exit 1; }
eval "$(linkerd-lite proxy-env mesh/client-0)"

echo '== by mutual TLS'
mtls-client web.mesh.svc.cluster.local:80

echo '== through the inbound proxy port'
mtls-client -direct "$LINKERD_LITE_SHIM_INBOUND_ADDR" web.mesh.svc.cluster.local:80

echo '== without a certificate'
if mtls-client -anonymous web.mesh.svc.cluster.local:80 2>/dev/null; then
	echo 'an unknown client was answered'
	exit 1
fi
curl -s "http://$LINKERD_LITE_ADMIN_ADDR/metrics" | grep '^inbound_tcp_errors_total'
