// Package pki makes the keys and certificates of this program's authorities, and reads and writes PEM.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
)

// serialBits keeps a serial number, which is positive, within the 20 bytes that RFC 5280 allows.
const serialBits = 127

// NewKey makes a key for whom it is said to be for: ECDSA P-256, the only kind
// that proxies take.
func NewKey(owner string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for %s: %w", owner, err)
	}
	return key, nil
}

// Sign makes the certificate of a public key. The template gets a random serial
// number; with a nil parent it is its own, and key its own private key.
func Sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %q: %w", template.Subject, err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate made for %q: %w", template.Subject, err)
	}
	return signed, nil
}
