package proxyshim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// handshakeTimeout bounds the time from accept to the end of the handshake and,
// on the direct path, of the transport header: the proxy's detection timeout.
const handshakeTimeout = 10 * time.Second

// termination is how TLS is terminated on one address.
type termination struct {
	shim *Shim
	// services are those whose server names are served here.
	services []*service
	// direct asks for the direct path's protocol and a client certificate.
	direct bool
}

// config makes the TLS configuration. TLS 1.3 has no other cipher suites than
// the three that proxies use.
func (t *termination) config() *tls.Config {
	c := &tls.Config{
		MinVersion:       tls.VersionTLS13,
		MaxVersion:       tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384},
		ClientAuth:       tls.RequestClientCert,
		// Every connection shows its certificate anew; proxies resume nothing.
		SessionTicketsDisabled: true,
		GetConfigForClient:     t.hello,
		GetCertificate:         t.certificate,
		VerifyConnection:       t.verify,
	}
	if t.direct {
		c.NextProtos = []string{ALPN}
	}
	return c
}

// service is the one that goes by the server name, which is compared without
// regard to case as DNS names are (B74).
func (t *termination) service(serverName string) *service {
	i := slices.IndexFunc(t.services, func(s *service) bool { return strings.EqualFold(s.ServerName, serverName) })
	if i < 0 {
		return nil
	}
	return t.services[i]
}

// hello looks at a ClientHello for reasons to refuse. Where crypto/tls refuses
// for the same reason it is left to do so, since it sends the better alert.
func (t *termination) hello(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	var fault *refusal
	switch {
	case !slices.Contains(hello.SupportedVersions, tls.VersionTLS13):
		fault = refuse(reasonVersion, "the client does not offer TLS 1.3")
	case t.direct && len(hello.SupportedProtos) > 0 && !slices.Contains(hello.SupportedProtos, ALPN):
		fault = refuse(reasonALPN, "the client offers %q", hello.SupportedProtos)
	case t.service(hello.ServerName) == nil:
		return nil, refuse(reasonName, "%q is not served here", hello.ServerName)
	}
	if c, ok := hello.Conn.(*peekedConn); ok {
		c.fault = fault
	}
	return nil, nil
}

func (t *termination) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c, err := t.service(hello.ServerName).certificate.get()
	if err != nil {
		return nil, refuse(reasonCertificate, "%v", err)
	}
	return c, nil
}

// verify checks what crypto/tls has not: the client's certificate and, on the
// direct path, that its protocol was agreed on.
func (t *termination) verify(state tls.ConnectionState) error {
	if t.direct && state.NegotiatedProtocol != ALPN {
		return refuse(reasonALPN, "the client offers none")
	}
	if len(state.PeerCertificates) == 0 {
		if t.direct || t.service(state.ServerName).ClientCertificate {
			return refuse(reasonNoClient, "")
		}
		return nil
	}
	return t.shim.verifyClient(state.PeerCertificates)
}

// verifyClient holds a client's chain against the trust anchors.
func (s *Shim) verifyClient(chain []*x509.Certificate) error {
	leaf, now := chain[0], s.config.Clock.Now().Round(0)
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: s.config.Issuer.Anchors().Pool, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	name := ClientID(leaf)
	if err == nil {
		if name == "" {
			return refuse(reasonClient, "it names neither a DNS name nor a URI")
		}
		return nil
	}
	why := reasonClient
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &authority):
		why = reasonAuthority
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil && now.Before(invalid.Cert.NotBefore):
		why = reasonNotYet
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		why = reasonExpired
	}
	const layout = time.RFC3339
	return refuse(why, "%q, not before %s, not after %s, now %s: %v", name,
		leaf.NotBefore.UTC().Format(layout), leaf.NotAfter.UTC().Format(layout), now.UTC().Format(layout), err)
}

// ClientID is the first name of a certificate that can be an identity.
func ClientID(c *x509.Certificate) string {
	switch {
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	}
	return ""
}

// secure does the handshake of a connection that has begun with a ClientHello.
func (t *termination) secure(c *peekedConn, config *tls.Config) (*tls.Conn, error) {
	if t.shim.config.Issuer == nil {
		return nil, refuse(reasonCertificate, "this instance has no identity")
	}
	conn := tls.Server(c, config)
	if err := conn.Handshake(); err != nil {
		if c.fault != nil {
			return nil, c.fault
		}
		return nil, refusalOf(err, reasonTLS)
	}
	return conn, nil
}

// peek reads until the first bytes can be told apart.
func peek(c net.Conn) (*peekedConn, Protocol, error) {
	buf := make([]byte, 0, detectBytes)
	for {
		n, err := c.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if p := Detect(buf); p != Undecided {
			return &peekedConn{Conn: c, peeked: buf}, p, nil
		}
		if err != nil {
			if len(buf) == 0 && errors.Is(err, io.EOF) {
				// Whoever only looks whether the port is open is no fault.
				return nil, Undecided, io.EOF
			}
			return nil, Undecided, refusalOf(err, reasonClosed)
		}
	}
}

// portCredentials sets up the connections of one service for its gRPC server.
type portCredentials struct {
	termination
	tls *tls.Config
}

var _ credentials.TransportCredentials = (*portCredentials)(nil)

// ServerHandshake detects, terminates, or takes over what the direct path has
// terminated. grpc-go closes the connection on an error.
func (p *portCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if secured, ok := securedBelow(raw); ok {
		return raw, secured.info, nil
	}
	c, ok := accepted(raw)
	if !ok {
		return nil, nil, errors.New("proxyshim: connection of a foreign listener")
	}
	_ = raw.SetDeadline(time.Now().Add(p.shim.timeout)) // grpc-go clears it
	peeked, kind, err := peek(raw)
	if err != nil {
		if err == io.EOF {
			return nil, nil, io.EOF
		}
		return nil, nil, p.shim.refused(p.services[0].Port, c, err)
	}
	secured, info, err := p.admit(peeked, kind, c)
	if err != nil {
		return nil, nil, p.shim.refused(p.services[0].Port, c, err)
	}
	return secured, info, nil
}

// admit serves plaintext or terminates TLS.
func (p *portCredentials) admit(peeked *peekedConn, kind Protocol, c *conn) (net.Conn, credentials.AuthInfo, error) {
	s := p.services[0]
	switch {
	case kind == Plaintext && !c.plaintext:
		return nil, nil, refuse(reasonPlaintext, "")
	case kind == Plaintext:
		info := p.shim.authInfo(s, c, nil)
		c.opened(info.series)
		return peeked, info, nil
	case kind != ClientHello:
		return nil, nil, refuse(reasonProtocol, "the connection begins with %q", peeked.peeked)
	}
	conn, err := p.secure(peeked, p.tls)
	if err != nil {
		return nil, nil, err
	}
	state := conn.ConnectionState()
	info := p.shim.authInfo(s, c, &state)
	c.opened(info.series)
	return conn, info, nil
}

// authInfo describes a connection; state is nil for plaintext.
func (s *Shim) authInfo(target *service, c *conn, state *tls.ConnectionState) *AuthInfo {
	info := &AuthInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	if state != nil {
		info.TLS = true
		info.SecurityLevel = credentials.PrivacyAndIntegrity
		if len(state.PeerCertificates) > 0 {
			info.ClientID = ClientID(state.PeerCertificates[0])
		}
	}
	info.series = s.metrics.forConn(target.Port, c.LocalAddr(), info)
	return info
}

// securedBelow finds a connection of the direct path.
func securedBelow(c net.Conn) (*securedConn, bool) {
	for {
		switch inner := c.(type) {
		case *securedConn:
			return inner, true
		case interface{ Unwrap() net.Conn }:
			c = inner.Unwrap()
		default:
			return nil, false
		}
	}
}

// ClientHandshake is not part of a server's credentials.
func (*portCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("proxyshim: server credentials used by a client")
}

// Info describes the protocol.
func (*portCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "l5d-mtls"}
}

// Clone returns the same credentials, which do not change.
func (p *portCredentials) Clone() credentials.TransportCredentials { return p }

// OverrideServerName does nothing: it is for clients.
func (*portCredentials) OverrideServerName(string) error { return nil }
