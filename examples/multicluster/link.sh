#!/bin/sh
# Runs inside west: writes the Secret by which west reads east, then runs COMMAND.
set -eu
linkerd-lite kubectl apply -f - <<SECRET
apiVersion: v1
kind: Secret
type: mirror.linkerd.io/remote-kubeconfig
metadata:
  name: cluster-credentials-east
  namespace: linkerd
  labels:
    multicluster.linkerd.io/cluster-name: east
  annotations:
    multicluster.linkerd.io/trust-domain: east.example
    multicluster.linkerd.io/cluster-domain: cluster.local
data:
  kubeconfig: $(base64 <"$EAST_KUBECONFIG" | tr -d '\n')
SECRET
exec "$@"
