package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FuzzCSR looks for requests that break the check, or that pass it with more
// in them than the one name.
func FuzzCSR(f *testing.F) {
	const name = "web.ns.serviceaccount.identity.linkerd.cluster.local"
	for _, names := range [][]string{{name}, {name, "x"}, nil} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			f.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Add([]byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, der []byte) {
		r, err := parseRequest(der)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("parse: %v", err)
			}
			return
		}
		if err := r.check(name); err != nil {
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("check: %v", err)
			}
			return
		}
		if _, err := r.key(); err != nil && status.Code(err) != codes.Internal {
			t.Errorf("key: %v", err)
		}
		if len(r.csr.DNSNames) != 1 || r.csr.DNSNames[0] != name {
			t.Errorf("names %v passed", r.csr.DNSNames)
		}
	})
}
