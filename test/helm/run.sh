#!/bin/sh
# Runs the life of a release of chart/ through helm. See README.md.
set -eu
cd "$(dirname "$0")"
helm version --short
exec linkerd-lite up --ephemeral --random-ports -- sh -eu -c '
	value() { linkerd-lite kubectl get "$1" -o "jsonpath={$2}"; }
	is() {
		got=$(value "$1" "$2")
		[ "$got" = "$3" ] || { echo "$1 has $2 $got, want $3" >&2; exit 1; }
	}
	set -x
	helm install shop chart --wait --timeout 2m
	is deploy/shop-web .status.readyReplicas 1
	is server/shop-web .spec.port http
	helm test shop --timeout 2m
	is pod/shop-answers .status.phase Succeeded
	helm upgrade shop chart --set replicas=3 --wait --timeout 2m
	is deploy/shop-web .status.readyReplicas 3
	helm rollback shop 1 --wait --timeout 2m
	is deploy/shop-web .spec.replicas 1
	helm history shop
	helm uninstall shop --wait --timeout 2m
	[ -z "$(linkerd-lite kubectl get deploy,service,server,job -l app.kubernetes.io/managed-by=Helm -o name)" ]
	[ -z "$(linkerd-lite kubectl get deploy/shop-web service/shop-web server/shop-web --ignore-not-found -o name)" ]
'
