#!/bin/sh
# Runs the application and the proxy of web-0 and the proxy of client-0, and
# calls the one through the other while the policy changes. PROXY is the proxy's
# command line; without it that is a stand-in, which logs what it does.
set -eu
command -v curl >/dev/null || { echo 'curl is needed' >&2; exit 1; }
PROXY=${PROXY:-linkerd-lite proxy}
pids=
trap 'kill $pids 2>/dev/null' EXIT

# The application listens on its pod's address.
local-proxy 10.244.7.1:8080 'hello from web-0' & pids=$!

# Both proxies share one network: only the client's takes the outbound port.
(eval "$(linkerd-lite proxy-env mesh/web-0 --outbound-addr 127.0.0.1:24140)"; export LINKERD2_PROXY_LOG=warn,linkerd=debug; exec $PROXY) >web.log 2>&1 & pids="$pids $!"
(eval "$(linkerd-lite proxy-env mesh/client-0 --outbound-addr 0.0.0.0:4140)"; export LINKERD2_PROXY_LOG=warn,linkerd=debug; exec $PROXY) >client.log 2>&1 & pids="$pids $!"

# What the application of client-0 does: it calls the Service.
call() { curl -s -f -m 5 http://10.96.7.1:4140/; }

echo '== no policy'
until call; do sleep 0.1; done

echo '== nobody may call web'
linkerd-lite kubectl apply -f deny.yaml >/dev/null
while call >/dev/null; do sleep 0.1; done
echo 'refused'

echo '== the client may'
linkerd-lite kubectl apply -f allow.yaml >/dev/null
until call; do sleep 0.1; done
