package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
)

// kubeletClient is as whom the API server connects to kubelets. It is a member of no group:
// its certificate gives no rights to whoever shows it to the API server.
const kubeletClient = "kube-apiserver-kubelet-client"

// Nodes lead the API server to one server that answers as the kubelets of all nodes
// would. Addresses of nodes are nobody's on the network: they are never dialled, but the
// server shows a certificate for those that were asked for.
type Nodes struct {
	keys    *Keys
	address net.Addr
	// certFile and keyFile are the API server's.
	certFile, keyFile string

	mu sync.Mutex
	// hosts are the names and addresses that the certificate is for.
	hosts       map[string]bool
	certificate *tls.Certificate
}

// NewNodes makes the certificates for a server at an address.
func (k *Keys) NewNodes(address net.Addr) (*Nodes, error) {
	dir := filepath.Dir(k.accountsFile)
	n := &Nodes{
		keys: k, address: address, hosts: map[string]bool{},
		certFile: filepath.Join(dir, "kubelet-client.crt"), keyFile: filepath.Join(dir, "kubelet-client.key"),
	}
	certPEM, keyPEM, err := k.leaf(&x509.Certificate{
		Subject:     pkix.Name{CommonName: kubeletClient},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	if err := cert.WriteCert(n.certFile, certPEM); err != nil {
		return nil, fmt.Errorf("writing the certificate for kubelets: %w", err)
	}
	if err := keyutil.WriteKey(n.keyFile, keyPEM); err != nil {
		return nil, fmt.Errorf("writing the key for kubelets: %w", err)
	}
	return n, n.answerAs("localhost")
}

// TLS is the configuration of the server: it lets nobody in but the API server.
func (n *Nodes) TLS() *tls.Config {
	authorities := x509.NewCertPool()
	authorities.AddCert(n.keys.ca)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  authorities,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != kubeletClient {
				return fmt.Errorf("%s is not let in, only the API server is", name)
			}
			return nil
		},
	}
}

// answerAs has the server show a certificate for a host, too. The client of an address
// does not say which it is for.
func (n *Nodes) answerAs(host string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[host] {
		return nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kubelet"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range append(slices.Sorted(maps.Keys(n.hosts)), host) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	certPEM, keyPEM, err := n.keys.leaf(template)
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	n.hosts[host], n.certificate = true, &certificate
	return nil
}

// dial connects to the server in the place of a node.
func (n *Nodes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := n.answerAs(host); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, n.address.Network(), n.address.String())
}

// client is how the API server shows itself.
func (n *Nodes) client() kubeletclient.KubeletTLSConfig {
	caFile, _ := n.keys.CAFiles()
	return kubeletclient.KubeletTLSConfig{CertFile: n.certFile, KeyFile: n.keyFile, CAFile: caFile}
}
