package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/pki"
)

// Scheme is how the files of an issuer directory are called: as in the
// Secret of that type.
type Scheme string

// The schemes (identity section 4).
const (
	SchemeLinkerd    Scheme = "linkerd.io/tls"
	SchemeKubernetes Scheme = "kubernetes.io/tls"
)

// names are the files of certificate and key.
func (s Scheme) names() (cert, key string, err error) {
	switch s {
	case SchemeLinkerd:
		return "crt.pem", "key.pem", nil
	case SchemeKubernetes:
		return "tls.crt", "tls.key", nil
	}
	return "", "", fmt.Errorf("identity scheme %q is neither %s nor %s", s, SchemeLinkerd, SchemeKubernetes)
}

const (
	// anchorLifetime and issuerLifetime are those of the authority that is
	// made at the first start.
	anchorLifetime = 10 * 365 * 24 * time.Hour
	issuerLifetime = 365 * 24 * time.Hour
	// issuerRenewal is how long before its end a made issuer is replaced:
	// `linkerd check` warns from 60 days on.
	issuerRenewal = 61 * 24 * time.Hour

	anchorsFile   = "ca-bundle.crt"
	anchorKeyFile = "ca.key"
	issuerDir     = "issuer"
)

// Files is where the authority is read from.
type Files struct {
	// Dir is a directory of the instance's own, in which a trust anchor and an
	// issuer are made at the first start. Not used when the other two are set.
	Dir string
	// IssuerDir holds the user's issuer, in files named by Scheme;
	// AnchorsFile is the PEM bundle of trust anchors that it chains to. Both
	// or none are set.
	IssuerDir, AnchorsFile string
	Scheme                 Scheme
}

// own says whether the authority is made here.
func (f Files) own() bool { return f.IssuerDir == "" }

// scheme is that of the files that are read.
func (f Files) scheme() Scheme {
	if f.own() || f.Scheme == "" {
		return SchemeLinkerd
	}
	return f.Scheme
}

func (f Files) issuerDir() string {
	if f.own() {
		return filepath.Join(f.Dir, issuerDir)
	}
	return f.IssuerDir
}

// AnchorsPath is the file of the trust anchors.
func (f Files) AnchorsPath() string {
	if f.own() {
		return filepath.Join(f.Dir, anchorsFile)
	}
	return f.AnchorsFile
}

func (f Files) check() error {
	if (f.IssuerDir == "") != (f.AnchorsFile == "") {
		return errors.New("an issuer of your own needs both its directory and the file of its trust anchors")
	}
	if f.own() && f.Dir == "" {
		return errors.New("identity has neither a directory of its own nor an issuer")
	}
	_, _, err := f.scheme().names()
	return err
}

// credentials are the bytes of an issuer.
type credentials struct{ cert, key []byte }

func (c credentials) equal(other credentials) bool {
	return bytes.Equal(c.cert, other.cert) && bytes.Equal(c.key, other.key)
}

// readIssuer reads the issuer's files.
func (f Files) readIssuer() (credentials, error) {
	certName, keyName, err := f.scheme().names()
	if err != nil {
		return credentials{}, err
	}
	cert, err := os.ReadFile(filepath.Join(f.issuerDir(), certName))
	if err != nil {
		return credentials{}, fmt.Errorf("read issuer certificate: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(f.issuerDir(), keyName))
	if err != nil {
		return credentials{}, fmt.Errorf("read issuer key: %w", err)
	}
	return credentials{cert, key}, nil
}

// prepare makes what is missing of an authority of our own, and a new issuer
// when the present one is about to end. It leaves a user's files alone.
func (f Files) prepare(issuerName string, now time.Time) error {
	if !f.own() {
		return nil
	}
	if err := os.MkdirAll(f.issuerDir(), 0o700); err != nil {
		return fmt.Errorf("make identity directory: %w", err)
	}
	anchor, anchorKey, err := f.anchor(issuerName, now)
	if err != nil {
		return err
	}
	current, err := f.readIssuer()
	if err == nil && !f.renew(current, now) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := pki.NewKey("the issuer")
	if err != nil {
		return err
	}
	notAfter := now.Add(issuerLifetime)
	if notAfter.After(anchor.NotAfter) {
		notAfter = anchor.NotAfter
	}
	cert, err := authority(issuerName, now, notAfter, 0, &key.PublicKey, anchor, anchorKey)
	if err != nil {
		return err
	}
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	certName, keyName, _ := SchemeLinkerd.names()
	if err := datadir.WriteFile(filepath.Join(f.issuerDir(), keyName), keyPEM, 0o600); err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(f.issuerDir(), certName), pki.EncodeCertificate(cert.Raw), 0o600)
}

// renew says whether the made issuer needs a successor: also when a crash came
// between the writing of its two files. One that cannot be read is reported by
// whoever loads it, not replaced.
func (f Files) renew(current credentials, now time.Time) bool {
	issuer, err := newIssuer(current, nil)
	if err != nil {
		return errors.Is(err, errKeyMismatch)
	}
	return now.Add(issuerRenewal).After(issuer.notAfter)
}

// anchor reads the trust anchor and its key, or makes both.
func (f Files) anchor(issuerName string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	certPath, keyPath := f.AnchorsPath(), filepath.Join(f.Dir, anchorKeyFile)
	certPEM, err := os.ReadFile(certPath)
	if err == nil {
		certs, err := pki.ParseCertificates(certPEM)
		if err != nil {
			return nil, nil, fmt.Errorf("trust anchors %s: %w", certPath, err)
		}
		keyPEM, err := os.ReadFile(keyPath)
		if err != nil {
			return nil, nil, fmt.Errorf("read key of trust anchor: %w", err)
		}
		key, err := pki.ParseKey(keyPEM)
		if err != nil {
			return nil, nil, fmt.Errorf("key of trust anchor %s: %w", keyPath, err)
		}
		return certs[0], key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read trust anchors: %w", err)
	}
	key, err := pki.NewKey("the trust anchor")
	if err != nil {
		return nil, nil, err
	}
	cert, err := authority("root."+issuerName, now, now.Add(anchorLifetime), 1, &key.PublicKey, nil, key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	// The certificate comes last: its presence means that both are there.
	if err := datadir.WriteFile(keyPath, keyPEM, 0o600); err != nil {
		return nil, nil, err
	}
	return cert, key, datadir.WriteFile(certPath, pki.EncodeCertificate(cert.Raw), 0o600)
}

// authority makes the certificate of an authority that may have pathLen
// authorities below it; without a parent it signs itself.
func authority(name string, now, notAfter time.Time, pathLen int, public *ecdsa.PublicKey, parent *x509.Certificate, key crypto.Signer) (*x509.Certificate, error) {
	return pki.Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name},
		// A clock that steps back a little must not unmake what was just made.
		NotBefore:             now.Add(-time.Minute).UTC(),
		NotAfter:              notAfter.UTC(),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            pathLen,
		MaxPathLenZero:        pathLen == 0,
	}, parent, public, key)
}
