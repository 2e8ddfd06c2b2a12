package meshclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
)

// Target is a peer of the mesh.
type Target struct {
	Addr string
	// ServerName is what the peer is asked for.
	ServerName string
	// ID is the identity that the peer must prove; empty is ServerName.
	ID      string
	Anchors *x509.CertPool
	// Identity is what this client shows; nil shows nothing.
	Identity *Identity
	// Renewed, if it is set, says at each handshake what Identity is by then.
	Renewed func() *Identity
	// DirectPort is the port behind a transport header, for the direct path of
	// an inbound proxy; 0 means an ordinary port, with neither header nor ALPN.
	DirectPort uint16
	// Name is that of a target that a gateway is asked to pass on to.
	Name string
	// Protocol is what the transport header says will follow; nil is HTTP/2,
	// which gRPC speaks.
	Protocol *proxyshim.SessionProtocol
}

// Dial makes a gRPC client of the target. Connections are made when needed.
func (t Target) Dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+t.Addr, append([]grpc.DialOption{grpc.WithTransportCredentials(&clientCredentials{t})}, options...)...)
}

// Handshake secures a connection to the target.
func (t Target) Handshake(ctx context.Context, raw net.Conn) (*tls.Conn, error) {
	config := &tls.Config{
		ServerName: t.ServerName,
		MinVersion: tls.VersionTLS13,
		// The name is compared with the SANs as it stands; crypto/tls would
		// give wildcards a meaning.
		InsecureSkipVerify: true,
		VerifyConnection:   t.verify,
	}
	if t.DirectPort != 0 {
		config.NextProtos = []string{proxyshim.ALPN}
	}
	if t.Renewed != nil {
		t.Identity = t.Renewed()
	}
	if t.Identity != nil {
		config.Certificates = []tls.Certificate{t.Identity.Certificate}
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS to %s as %s: %w", t.Addr, t.ServerName, err)
	}
	if t.DirectPort == 0 {
		return conn, nil
	}
	if conn.ConnectionState().NegotiatedProtocol != proxyshim.ALPN {
		return nil, fmt.Errorf("TLS to %s as %s: the peer did not agree on %s", t.Addr, t.ServerName, proxyshim.ALPN)
	}
	header := proxyshim.Header{Port: t.DirectPort, Name: t.Name, Protocol: proxyshim.HTTP2}
	if t.Protocol != nil {
		header.Protocol = *t.Protocol
	}
	if _, err := conn.Write(proxyshim.AppendHeader(nil, header)); err != nil {
		return nil, fmt.Errorf("send transport header to %s: %w", t.Addr, err)
	}
	return conn, nil
}

// verify checks chain and name as a proxy does (proxy section 7).
func (t Target) verify(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: t.Anchors, Intermediates: intermediates}); err != nil {
		return err
	}
	id := cmp.Or(t.ID, t.ServerName)
	if !slices.Contains(leaf.DNSNames, id) && !slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return u.String() == id }) {
		return fmt.Errorf("the peer is %q, not %q", leaf.DNSNames, id)
	}
	return nil
}

// clientCredentials are Target's handshake for grpc-go, whose own would insist
// on ALPN.
type clientCredentials struct{ target Target }

var _ credentials.TransportCredentials = (*clientCredentials)(nil)

// authInfo says that the connection is secure.
type authInfo struct{ credentials.CommonAuthInfo }

func (authInfo) AuthType() string { return "tls" }

func (c *clientCredentials) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, err := c.target.Handshake(ctx, raw)
	if err != nil {
		return nil, nil, err
	}
	return conn, authInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (*clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("meshclient: client credentials used by a server")
}

func (*clientCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "l5d-mtls"}
}

func (c *clientCredentials) Clone() credentials.TransportCredentials { return c }

func (*clientCredentials) OverrideServerName(string) error { return nil }
