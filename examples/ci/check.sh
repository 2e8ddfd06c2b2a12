#!/bin/sh
# Runs inside `linkerd-lite up manifests -- ./check.sh`: everything has settled
# when it starts, and the cluster ends with it.
set -eu

endpoints=$(linkerd-lite diagnostics endpoints -o json cart.shop.svc.cluster.local:80 | grep -c '"ip"')
echo "cart has $endpoints endpoints"
[ "$endpoints" -eq 3 ]

linkerd-lite diagnostics profile cart.shop.svc.cluster.local:80 | grep -q '"is_retryable": true'
echo "GET /cart/{id} is retryable"

# A profile that a proxy could not use must not get in.
if answer=$(linkerd-lite kubectl apply -f "$(dirname "$0")/bad-profile.yaml" 2>&1); then
	echo "a broken ServiceProfile was accepted"
	exit 1
fi
echo "$answer" | grep -q 'linkerd-sp-validator.linkerd.io" denied the request'
echo "a broken ServiceProfile is refused"
