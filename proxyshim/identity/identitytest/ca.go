package identitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is an authority with which tests make certificates that the service
// itself would not issue.
type CA struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
	parent      *CA
}

// NewCA makes an authority, signed by parent or, if that is nil, by itself.
func NewCA(t testing.TB, name string, notAfter time.Time, parent *CA) *CA {
	t.Helper()
	ca := &CA{Key: NewKey(t), parent: parent}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: notAfter.Add(-10 * 365 * 24 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signer := &CA{Certificate: template, Key: ca.Key}
	if parent != nil {
		signer = parent
	}
	ca.Certificate = signer.sign(t, template, &ca.Key.PublicKey)
	return ca
}

// PEM is the authority's certificate.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw})
}

// Write puts certificate and key into files of dir; parents follow in the bundle.
func (ca *CA) Write(t testing.TB, dir, certName, keyName string, parents ...*CA) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	bundle := ca.PEM()
	for _, p := range parents {
		bundle = append(bundle, p.PEM()...)
	}
	for name, data := range map[string][]byte{
		certName: bundle,
		keyName:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Leaf makes a workload's certificate for names; none gives one without a name.
func (ca *CA) Leaf(t testing.TB, notBefore, notAfter time.Time, names ...string) tls.Certificate {
	t.Helper()
	return ca.Issue(t, &x509.Certificate{
		NotBefore: notBefore, NotAfter: notAfter, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// Issue makes a certificate of the template, which gets a serial number.
func (ca *CA) Issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := NewKey(t)
	template.SerialNumber = big.NewInt(2)
	leaf := ca.sign(t, template, &key.PublicKey)
	out := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
	for a := ca; a.parent != nil; a = a.parent {
		out.Certificate = append(out.Certificate, a.Certificate.Raw)
	}
	return out
}

func (ca *CA) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, key, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// NewKey returns a key of the kind that proxies have.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
