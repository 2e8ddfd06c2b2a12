package meshclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/internal/pki"
	identitypb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
)

// Request is a key and the certificate request made with it. A proxy keeps
// both for its whole life, renewals included.
type Request struct {
	Identity string
	Key      *ecdsa.PrivateKey
	// CSR is in DER.
	CSR []byte
}

// NewRequest makes an ECDSA P-256 key and a request for identity (identity
// section 6).
func NewRequest(identity string) (*Request, error) {
	key, err := pki.NewKey(identity)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: identity}, DNSNames: []string{identity},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request for %s: %w", identity, err)
	}
	return &Request{identity, key, csr}, nil
}

// Identity is a certificate with its key.
type Identity struct {
	Certificate tls.Certificate
	ValidUntil  time.Time
}

// Certify gets a certificate for the request from the identity service behind
// cc. The token is that of the identity's service account.
func (r *Request) Certify(ctx context.Context, cc grpc.ClientConnInterface, token []byte) (*Identity, error) {
	answer, err := identitypb.NewIdentityClient(cc).Certify(ctx, &identitypb.CertifyRequest{
		Identity: r.Identity, Token: token, CertificateSigningRequest: r.CSR,
	})
	if err != nil {
		return nil, fmt.Errorf("certify %s: %w", r.Identity, err)
	}
	if answer.GetValidUntil() == nil || !answer.GetValidUntil().AsTime().After(time.Now()) {
		return nil, errors.New("certify " + r.Identity + ": the certificate has already ended")
	}
	return &Identity{
		Certificate: tls.Certificate{
			Certificate: append([][]byte{answer.GetLeafCertificate()}, answer.GetIntermediateCertificates()...),
			PrivateKey:  r.Key,
		},
		ValidUntil: answer.GetValidUntil().AsTime(),
	}, nil
}
