package webhook

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/pki"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	lifetime          = 365 * 24 * time.Hour
	// backdated is how far in the past a certificate begins, for clocks that were set back.
	backdated = time.Hour
)

// The files of the certificates. All are readable by their owner alone.
const (
	authorityCertFile = "ca.crt"
	authorityKeyFile  = "ca.key"
	certFile          = "tls.crt"
	keyFile           = "tls.key"
)

// certificates are an authority of our own, which stays the same over restarts, and a certificate of it. The
// certificate is renewed in the last third of its life, during a handshake or at start; files that somebody exchanged
// are used from the next handshake on (A05), if they are a pair.
type certificates struct {
	dir      string
	dnsNames []string
	now      func() time.Time
	log      *slog.Logger

	mu           sync.Mutex
	authority    *pair
	current      *pair
	modified     [2]time.Time // of the certificate's files when they were read
	authorityPEM []byte
}

// pair is a certificate with its key.
type pair struct {
	certPEM, keyPEM []byte
	leaf            *x509.Certificate
	tls             tls.Certificate
}

func newCertificates(dir string, dnsNames []string, now func() time.Time, log *slog.Logger) *certificates {
	if now == nil {
		now = time.Now
	}
	return &certificates{dir: dir, dnsNames: dnsNames, now: now, log: log}
}

func (c *certificates) bundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.authorityPEM)
}

// load reads the certificates, and makes those that are missing, unusable or at their end.
func (c *certificates) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir != "" {
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return fmt.Errorf("create the directory of certificates: %w", err)
		}
	}
	authority, err := c.read(authorityCertFile, authorityKeyFile)
	if err != nil || !authority.leaf.IsCA || c.expires(authority.leaf) {
		c.explain(err)
		if authority, err = c.issue(nil); err != nil {
			return err
		}
		if err := c.write(authority, authorityCertFile, authorityKeyFile); err != nil {
			return err
		}
	}
	c.authority, c.authorityPEM = authority, authority.certPEM
	current, err := c.read(certFile, keyFile)
	if err != nil || !c.usable(current.leaf) {
		c.explain(err)
		return c.renew()
	}
	c.current, c.modified = current, c.stat()
	return nil
}

// served is the certificate in use and its key.
func (c *certificates) served() (certPEM, keyPEM []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil, nil
	}
	return c.current.certPEM, c.current.keyPEM
}

// get returns what a handshake should show, and whether that has just replaced another certificate.
func (c *certificates) get() (certificate *tls.Certificate, replaced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.current
	if modified := c.stat(); modified != c.modified {
		c.modified = modified
		if exchanged, err := c.read(certFile, keyFile); err != nil {
			c.log.Warn("exchanged webhook certificate not used", "error", err)
		} else {
			c.current = exchanged
		}
	}
	if c.expires(c.current.leaf) {
		if err := c.renew(); err != nil {
			c.log.Warn("webhook certificate not renewed", "error", err)
		}
	}
	return &c.current.tls, c.current != before
}

// usable tells whether a certificate is of our authority, has all names and is not at its end.
func (c *certificates) usable(leaf *x509.Certificate) bool {
	if leaf.CheckSignatureFrom(c.authority.leaf) != nil || c.expires(leaf) || leaf.VerifyHostname("127.0.0.1") != nil {
		return false
	}
	for _, name := range c.dnsNames {
		if leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}

// expires tells whether a certificate is in the last third of its life, or not valid yet.
func (c *certificates) expires(leaf *x509.Certificate) bool {
	now := c.now()
	return now.Before(leaf.NotBefore) || now.After(leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore)/3))
}

// renew replaces the certificate. The caller holds the lock.
func (c *certificates) renew() error {
	renewed, err := c.issue(c.authority)
	if err != nil {
		return err
	}
	c.current = renewed
	err = c.write(renewed, certFile, keyFile)
	c.modified = c.stat()
	return err
}

// issue makes a certificate of an authority, or an authority if none is given.
func (c *certificates) issue(authority *pair) (*pair, error) {
	start := c.now().Add(-backdated)
	if authority == nil {
		return sign(&x509.Certificate{
			Subject:   pkix.Name{CommonName: "linkerd-lite webhook authority"},
			NotBefore: start, NotAfter: start.Add(authorityLifetime),
			IsCA: true, KeyUsage: x509.KeyUsageCertSign,
		}, nil)
	}
	return sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "linkerd-lite webhooks"},
		NotBefore: start, NotAfter: start.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, c.dnsNames...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, authority)
}

// sign makes a key and a certificate for it, signed by an authority or, without
// one, by itself.
func sign(template *x509.Certificate, authority *pair) (*pair, error) {
	key, err := pki.NewKey(template.Subject.String())
	if err != nil {
		return nil, err
	}
	template.BasicConstraintsValid = true
	var parent *x509.Certificate
	signer := crypto.Signer(key)
	if authority != nil {
		parent = authority.leaf
		if signer, err = pki.ParseKey(authority.keyPEM); err != nil {
			return nil, fmt.Errorf("key of the webhook authority: %w", err)
		}
	}
	signed, err := pki.Sign(template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	return parse(pki.EncodeCertificate(signed.Raw), keyPEM)
}

func parse(certPEM, keyPEM []byte) (*pair, error) {
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return nil, err
	}
	certificate.Leaf = leaf
	return &pair{certPEM: certPEM, keyPEM: keyPEM, leaf: leaf, tls: certificate}, nil
}

func (c *certificates) read(certName, keyName string) (*pair, error) {
	if c.dir == "" {
		return nil, fs.ErrNotExist
	}
	certPEM, err := os.ReadFile(filepath.Join(c.dir, certName))
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(c.dir, keyName))
	if err != nil {
		return nil, err
	}
	found, err := parse(certPEM, bytes.TrimSpace(keyPEM))
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", filepath.Join(c.dir, certName), keyName, err)
	}
	return found, nil
}

// write stores a pair, the key first: the certificate's file is the one that tells of a change.
func (c *certificates) write(p *pair, certName, keyName string) error {
	if c.dir == "" {
		return nil
	}
	if err := datadir.WriteFile(filepath.Join(c.dir, keyName), p.keyPEM, 0o600); err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(c.dir, certName), p.certPEM, 0o600)
}

func (c *certificates) stat() (modified [2]time.Time) {
	for i, name := range []string{certFile, keyFile} {
		if c.dir == "" {
			break
		}
		if info, err := os.Stat(filepath.Join(c.dir, name)); err == nil {
			modified[i] = info.ModTime()
		}
	}
	return modified
}

// explain logs why stored certificates are not used, unless there are none.
func (c *certificates) explain(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("stored webhook certificate not used", "error", err)
	}
}
