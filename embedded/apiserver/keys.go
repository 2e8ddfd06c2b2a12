package apiserver

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/linkerd-lite/linkerd-lite/internal/pki"
)

const (
	caLifetime = 10 * 365 * 24 * time.Hour
	// caRenewBefore is the rest of its life at which the CA is replaced.
	caRenewBefore = 365 * 24 * time.Hour
	// leafLifetime is that of certificates that are made anew for each run.
	leafLifetime = 365 * 24 * time.Hour
	// backdate lets a client whose clock is behind accept a new certificate.
	backdate = time.Hour

	adminName  = "linkerd-lite-admin"
	adminGroup = "system:masters"
)

// Keys are the API server's keys that outlast a run: its CA and the key that
// signs service account tokens.
type Keys struct {
	ca           *x509.Certificate
	caKey        crypto.Signer
	caPEM        []byte
	accountsFile string
	frontProxy   frontProxy
}

// LoadKeys reads the keys in dir, or makes them.
func LoadKeys(dir string) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of keys: %w", err)
	}
	k := &Keys{accountsFile: filepath.Join(dir, "service-accounts.key")}
	// Tokens outlive a restart only if the key does.
	if _, err := loadKey(k.accountsFile); err != nil {
		return nil, err
	}
	var err error
	if k.ca, k.caKey, err = loadCA(dir, "ca", "linkerd-lite"); err != nil {
		return nil, err
	}
	k.caPEM = pki.EncodeCertificate(k.ca.Raw)
	return k, k.loadFrontProxy(dir)
}

// loadCA reads NAME.crt and NAME.key in dir, or makes them.
func loadCA(dir, name, commonName string) (*x509.Certificate, crypto.Signer, error) {
	key, err := loadKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, name+".crt")
	certs, err := cert.CertsFromFile(file)
	switch {
	case err == nil && time.Now().Before(certs[0].NotAfter.Add(-caRenewBefore)) && pki.Belongs(certs[0], key):
		return certs[0], key, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("reading the CA %s: %w", file, err)
	}
	ca, err := newCA(key, commonName)
	if err != nil {
		return nil, nil, err
	}
	if err := cert.WriteCert(file, pki.EncodeCertificate(ca.Raw)); err != nil {
		return nil, nil, fmt.Errorf("writing the CA: %w", err)
	}
	return ca, key, nil
}

// CA is the certificate that clients of the server trust, PEM.
func (k *Keys) CA() []byte { return bytes.Clone(k.caPEM) }

// Fingerprint identifies the keys, and so the data directory in which they are.
// It tells nothing about them.
func (k *Keys) Fingerprint() string {
	sum := sha256.Sum256(k.ca.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:16])
}

func loadKey(file string) (crypto.Signer, error) {
	data, _, err := keyutil.LoadOrGenerateKeyFile(file)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", file, err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key %s: a %T cannot sign", file, key)
	}
	return signer, nil
}

func newCA(key crypto.Signer, commonName string) (*x509.Certificate, error) {
	now := time.Now()
	return pki.Sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}, nil, key.Public(), key)
}

// leaf makes a key and a certificate for it, both as PEM.
func (k *Keys) leaf(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	return issue(template, k.ca, k.caKey)
}

func issue(template, ca *x509.Certificate, caKey crypto.Signer) (certPEM, keyPEM []byte, err error) {
	key, err := pki.NewKey(template.Subject.String())
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(leafLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	signed, err := pki.Sign(template, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = pki.EncodeKey(key)
	return pki.EncodeCertificate(signed.Raw), keyPEM, err
}

func (k *Keys) serving(ips []net.IP) (certPEM, keyPEM []byte, err error) {
	return k.leaf(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, ips...),
	})
}

// clientConfig returns the configuration of a client with all rights on the
// server at address, under the given name. Its requests are not limited.
func (k *Keys) clientConfig(name string, address net.Addr) (*rest.Config, error) {
	certPEM, keyPEM, err := k.leaf(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: []string{adminGroup}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: "https://" + address.String(),
		// The API server takes from it who writes what, whatever the program's file is called, and
		// for clients that share one HTTP client too.
		UserAgent:       "linkerd-lite",
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: k.caPEM, CertData: certPEM, KeyData: keyPEM},
	}, nil
}

// Kubeconfig turns a client configuration into a file that carries its
// certificates inline, under the given name.
func Kubeconfig(config *rest.Config, name string) *clientcmdapi.Config {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	kubeconfig.CurrentContext = name
	return kubeconfig
}
