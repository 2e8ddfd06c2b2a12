#!/bin/sh
# Prints what a proxy in west gets for the two linked Services.
set -eu

# The link is made in the background: ask until it answers.
tries=0
until linkerd-lite diagnostics endpoints web-east.shop.svc.cluster.local:80 2>/dev/null | grep -q web; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo "east was not linked" >&2; exit 1; }
	sleep 0.1
done

for service in web-east web-federated; do
	echo "# $service"
	linkerd-lite diagnostics endpoints -o wide "$service.shop.svc.cluster.local:80"
done
