package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"
)

// Client is the certificate of the only client of a Server, the API server.
type Client struct{ pair *pair }

// NewClient makes a certificate of its own for the API server of this run. No
// authority signs it: a Server knows it by itself.
func NewClient() (*Client, error) {
	now := time.Now()
	pair, err := sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "linkerd-lite API server"},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(authorityLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("client certificate for webhooks: %w", err)
	}
	return &Client{pair}, nil
}

// KeyPair is the certificate and its key, PEM.
func (c *Client) KeyPair() (cert, key []byte) { return c.pair.certPEM, c.pair.keyPEM }

// TLS is the certificate as a client of this process shows it.
func (c *Client) TLS() tls.Certificate { return c.pair.tls }

// verify refuses every other client: without that, any user of this machine
// could have the server compute reviews.
func (c *Client) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(c.pair.leaf) {
		return errors.New("only the API server may ask for reviews")
	}
	return nil
}
