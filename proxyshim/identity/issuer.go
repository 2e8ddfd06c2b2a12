package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/pki"
)

// Issuer is a loaded issuer certificate with its key and the anchors it chains
// to. Immutable.
type Issuer struct {
	pem         credentials
	certificate *x509.Certificate
	key         crypto.Signer
	// chain is the issuer and its parents as they stand in the bundle, in DER.
	chain         [][]byte
	intermediates *x509.CertPool
	anchors       *x509.CertPool
	// notAfter is the earliest end of the issuer and its parents.
	notAfter time.Time
}

var errKeyMismatch = errors.New("the issuer's key does not belong to its certificate")

// newIssuer reads PEM and checks that key, certificate and anchors fit
// together (identity section 4). Whether they are valid at a time is Verify's.
func newIssuer(files credentials, anchors *x509.CertPool) (*Issuer, error) {
	certs, err := pki.ParseCertificates(files.cert)
	if err != nil {
		return nil, fmt.Errorf("issuer certificate: %w", err)
	}
	key, err := pki.ParseKey(files.key)
	if err != nil {
		return nil, fmt.Errorf("issuer key: %w", err)
	}
	issuer := &Issuer{pem: files, certificate: certs[0], key: key, anchors: anchors, intermediates: x509.NewCertPool(), notAfter: certs[0].NotAfter}
	for i, c := range certs {
		issuer.chain = append(issuer.chain, c.Raw)
		if c.NotAfter.Before(issuer.notAfter) {
			issuer.notAfter = c.NotAfter
		}
		if i > 0 {
			issuer.intermediates.AddCert(c)
		}
	}
	if !pki.Belongs(certs[0], key) {
		return nil, errKeyMismatch
	}
	if !certs[0].IsCA {
		return nil, fmt.Errorf("the issuer certificate %q is not that of an authority", certs[0].Subject)
	}
	return issuer, nil
}

// Verify says whether the issuer chains to the anchors at now. The error has
// the certificate's dates (B71).
func (i *Issuer) Verify(now time.Time) error {
	_, err := i.certificate.Verify(x509.VerifyOptions{
		Roots: i.anchors, Intermediates: i.intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("verify issuer certificate %q (%s): %w", i.certificate.Subject, dates(i.certificate, now), err)
	}
	return nil
}

// PEM is the issuer's certificate with its parents, and its key. Not to be changed.
func (i *Issuer) PEM() (cert, key []byte) { return i.pem.cert, i.pem.key }

// NotAfter is the end of the issuer or of one of its parents, whichever comes first.
func (i *Issuer) NotAfter() time.Time { return i.notAfter }

// dates words the validity of c for messages.
func dates(c *x509.Certificate, now time.Time) string {
	return fmt.Sprintf("not before %s, not after %s, now %s",
		c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

// Leaf is a certificate that was issued.
type Leaf struct {
	// Certificate is the DER of the leaf, Chain that of its issuers, the
	// direct one first.
	Certificate []byte
	Chain       [][]byte
	NotBefore   time.Time
	NotAfter    time.Time
}

// sign issues a certificate for identity. Only name, subject (DER) and key come
// from the requester: extensions of a request are not copied, or a workload
// could ask to become an authority.
func (i *Issuer) sign(subject []byte, identity string, key *ecdsa.PublicKey, notBefore, notAfter time.Time) (*Leaf, error) {
	if notAfter.After(i.notAfter) {
		notAfter = i.notAfter
	}
	template := &x509.Certificate{
		RawSubject:            subject,
		DNSNames:              []string{identity},
		NotBefore:             notBefore.UTC().Truncate(time.Second),
		NotAfter:              notAfter.UTC().Truncate(time.Second),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if _, ok := i.key.Public().(*ecdsa.PublicKey); ok {
		template.SignatureAlgorithm = x509.ECDSAWithSHA256
	}
	signed, err := pki.Sign(template, i.certificate, key, i.key)
	if err != nil {
		return nil, fmt.Errorf("identity %q: %w", identity, err)
	}
	return &Leaf{Certificate: signed.Raw, Chain: i.chain, NotBefore: template.NotBefore, NotAfter: template.NotAfter}, nil
}
