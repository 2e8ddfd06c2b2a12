package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"
)

// An authority signs itself and others; what is written is read again.
func TestAuthorityAndLeaf(t *testing.T) {
	rootKey, err := NewKey("the root")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	root, err := Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "root"}, NotBefore: now, NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewKey("web")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := Sign(&x509.Certificate{DNSNames: []string{"web"}, NotBefore: now, NotAfter: now.Add(time.Hour)}, root, key.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "web", Roots: roots}); err != nil {
		t.Error(err)
	}
	if root.SerialNumber.Cmp(leaf.SerialNumber) == 0 {
		t.Errorf("two certificates with the serial number %v", root.SerialNumber)
	}
	if !Belongs(leaf, key) || Belongs(leaf, rootKey) {
		t.Error("whose certificate it is is not told right")
	}
	bundle, err := ParseCertificates(append(EncodeCertificate(leaf.Raw), EncodeCertificate(root.Raw)...))
	if err != nil || len(bundle) != 2 || !bundle[0].Equal(leaf) || !bundle[1].Equal(root) {
		t.Errorf("read %d certificates: %v", len(bundle), err)
	}
	text, err := EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ParseKey(text); err != nil || !key.Equal(read) {
		t.Errorf("another key: %v", err)
	}
}

// A template that cannot be signed is an error that names whom it was for.
func TestSignFails(t *testing.T) {
	key, err := NewKey("a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKey("b")
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "a"}}
	parent := &x509.Certificate{PublicKey: other.Public()}
	if _, err := Sign(template, parent, key.Public(), key); err == nil || !bytes.Contains([]byte(err.Error()), []byte(`"CN=a"`)) {
		t.Errorf("got %v", err)
	}
}

func TestParse(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	for _, test := range []struct {
		name, problem string
		text          []byte
	}{
		{"PKCS#1", "", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		{"PKCS#8", "", block("PRIVATE KEY", pkcs8)},
		{"behind another block", "", append(block("EC PARAMETERS", []byte("x")), block("PRIVATE KEY", pkcs8)...)},
		{"nothing", "there is no PEM block of a private key", nil},
		{"a certificate", "there is no PEM block of a private key", block("CERTIFICATE", []byte("x"))},
	} {
		t.Run("key "+test.name, func(t *testing.T) {
			_, err := ParseKey(test.text)
			if got := text(err); got != test.problem {
				t.Errorf("got %q, want %q", got, test.problem)
			}
		})
	}
	for _, test := range []struct {
		name, problem string
		text          []byte
	}{
		{"nothing", "there is no PEM block CERTIFICATE", []byte(" \n")},
		{"a key", "there is no PEM block CERTIFICATE", block("PRIVATE KEY", pkcs8)},
		{"text", "there is text that is not PEM", []byte("text")},
	} {
		t.Run("certificates "+test.name, func(t *testing.T) {
			_, err := ParseCertificates(test.text)
			if got := text(err); got != test.problem {
				t.Errorf("got %q, want %q", got, test.problem)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
