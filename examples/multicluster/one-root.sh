#!/bin/sh
# The two clusters with issuers of one root, so that proxies of one know those of
# the other, and a gateway between them. It needs openssl.
set -eu
cd "$(dirname "$0")"
pki=$(mktemp -d)
trap 'rm -rf "$pki"' EXIT

# key NAME: a key; sign NAME SUBJECT: a certificate that may sign others, by the root.
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$pki/$1" 2>/dev/null; }
ca='basicConstraints=critical,CA:true
keyUsage=critical,keyCertSign,cRLSign'
echo "$ca" >"$pki/ca.ext"
key root.key
openssl req -x509 -new -key "$pki/root.key" -subj /CN=root.linkerd.example -days 365 -out "$pki/root.crt" \
	-addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
for cluster in east west; do
	mkdir "$pki/$cluster"
	key "$cluster/key.pem"
	openssl req -new -key "$pki/$cluster/key.pem" -subj "/CN=identity.linkerd.$cluster.example" -out "$pki/$cluster.csr"
	openssl x509 -req -in "$pki/$cluster.csr" -CA "$pki/root.crt" -CAkey "$pki/root.key" -CAcreateserial \
		-days 90 -extfile "$pki/ca.ext" -out "$pki/$cluster/crt.pem" 2>/dev/null
done

[ $# -gt 0 ] || set -- ./gateway.sh
ROOTS=$pki ./run.sh "$@"
