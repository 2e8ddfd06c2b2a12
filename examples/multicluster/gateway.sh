#!/bin/sh
# Makes a gateway in east, and in west the Service by which the service mirror would
# lead there; prints what a proxy in west gets for it, and how it knows the gateway.
set -eu
east() { linkerd-lite kubectl --data-dir "$(dirname "$EAST_KUBECONFIG")" "$@"; }
west() { linkerd-lite kubectl "$@"; }

east apply -f gateway/east.yaml >/dev/null
east -n linkerd-multicluster rollout status deploy/linkerd-gateway --timeout 2m >/dev/null
address=$(east -n linkerd-multicluster get pods -l app=linkerd-gateway -o 'jsonpath={.items[0].status.podIP}')
sed "s/GATEWAY_ADDRESS/$address/" gateway/west.yaml | west apply -f - >/dev/null

echo '# web-gateway'
tries=0
until linkerd-lite diagnostics endpoints -o wide web-gateway.shop.svc.cluster.local:80 >endpoints.out 2>/dev/null && grep -q gateway endpoints.out; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo 'the gateway has no endpoint' >&2; exit 1; }
	sleep 0.1
done
cat endpoints.out
rm endpoints.out

echo '# what proxies trust'
roots() { "$1" -n linkerd get configmap linkerd-identity-trust-roots -o 'jsonpath={.data.ca-bundle\.crt}'; }
[ "$(roots east)" = "$(roots west)" ] && echo 'the same root in both'
for cluster in east west; do
	"$cluster" -n linkerd get secret linkerd-identity-issuer -o 'jsonpath={.data.crt\.pem}' | base64 -d | openssl x509 -noout -issuer -subject
done
