package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Types of PEM blocks.
const (
	certificateBlock = "CERTIFICATE"
	ecKeyBlock       = "EC PRIVATE KEY"
)

// EncodeCertificate writes a certificate's DER as PEM.
func EncodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
}

// EncodeKey writes a private key as PEM.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: ecKeyBlock, Bytes: der}), nil
}

// ParseCertificates reads a PEM bundle. Blocks of other types are skipped;
// text after the last block is an error.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for len(bytes.TrimSpace(data)) > 0 {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, errors.New("there is text that is not PEM")
		}
		data = rest
		if block.Type != certificateBlock {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("there is no PEM block CERTIFICATE")
	}
	return certs, nil
}

// ParseKey reads the first private key of a PEM file, in any of its forms.
func ParseKey(data []byte) (crypto.Signer, error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, errors.New("there is no PEM block of a private key")
		}
		data = rest
		switch block.Type {
		case ecKeyBlock:
			return x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			signer, ok := key.(crypto.Signer)
			if !ok {
				return nil, fmt.Errorf("a key of type %T cannot sign", key)
			}
			return signer, nil
		}
	}
}

// Belongs tells whether a certificate is that of a key.
func Belongs(certificate *x509.Certificate, key crypto.Signer) bool {
	public, ok := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}
