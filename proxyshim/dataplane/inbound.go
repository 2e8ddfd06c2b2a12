package dataplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

const inboundDirection = "inbound"

// inbound takes connections for the application. Each takes these steps:
//  1. The kernel says which port it is for. What is for the proxy's own port is
//     of another proxy, and names the application's port in a header.
//  2. TLS for this proxy's identity is terminated, and says who the client is.
//  3. The port's policy says what is spoken, and who may: of HTTP each request
//     is judged, of all else the connection.
type inbound struct {
	config   *Config
	identity *identity
	metrics  *metrics
	ports    *cache[uint16, *port]
	http     *http.Server
	forward  http.Handler
	queue    *proxyshim.Handoff
	buffers  *buffers
}

func newInbound(config *Config, identity *identity, m *metrics, pool *buffers) *inbound {
	i := &inbound{config: config, identity: identity, metrics: m, buffers: pool, queue: proxyshim.NewHandoff(&net.TCPAddr{})}
	i.forward = newForwarder(http.RoundTripper(i), pool, config.Log, i.failed)
	i.http = newHTTPServer(i, config.Log)
	return i
}

// tlsConfig is for connections to an application's port, or on the direct path.
func (i *inbound) tlsConfig(direct bool) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs:  i.config.Workload.Destination.Anchors,
		// Every connection shows its certificate anew; proxies resume nothing.
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &i.identity.certificate().Certificate, nil
		},
	}
	if direct {
		config.ClientAuth, config.NextProtos = tls.RequireAndVerifyClientCert, []string{proxyshim.ALPN}
	}
	return config
}

// serve takes one connection through the steps.
func (i *inbound) serve(ctx context.Context, raw net.Conn) error {
	client, original, err := i.config.Addresses(raw)
	if err != nil {
		return err
	}
	if len(i.config.InboundIPs) > 0 && !slices.Contains(i.config.InboundIPs, original.Addr()) {
		return fmt.Errorf("%s is no address of this pod", original)
	}
	in := &accepted{Conn: raw, client: verdict.Client{Addr: client}, original: original}
	session := undecided
	if own := addrPort(raw.LocalAddr()).Port(); original.Port() == own {
		if session, err = i.direct(ctx, in); err != nil {
			return err
		}
	}
	port, release := i.ports.acquire(in.original.Port())
	defer release()
	in.port = port
	server := port.first(ctx)
	name := ""
	if session == undecided && server.Protocol != verdict.Opaque {
		if session, name, err = i.detect(ctx, in, server); err != nil {
			return err
		}
	}
	target := targetLabels(in.original)
	in.labels = merged(directionLabels(inboundDirection), target, clientLabels(in.client))
	if name != "" {
		in.labels = merged(directionLabels(inboundDirection), target, prometheus.Labels{"tls": "opaque", "sni": name})
	}
	conn := i.metrics.counted(in.Conn, merged(in.labels, policyLabels(server.Server, in.original.Port()), prometheus.Labels{"peer": "src"}))
	defer conn.Close()
	in.Conn = conn
	if (session == http1 || session == http2) && server.Routes != nil {
		return serveHTTP(ctx, i.queue, in)
	}
	return i.serveBytes(ctx, in)
}

// direct terminates the connection of another proxy and reads where it goes.
func (i *inbound) direct(ctx context.Context, in *accepted) (kind, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := i.terminate(ctx, in, in.Conn, true)
	if err != nil {
		return undecided, err
	}
	defer context.AfterFunc(ctx, func() { in.Conn.Close() })()
	header, err := proxyshim.ReadHeader(conn)
	if err != nil {
		return undecided, err
	}
	i.metrics.headers.with(prometheus.Labels{
		"session_protocol": header.Protocol.String(), "target_port": strconv.Itoa(int(header.Port)), "target_name": header.Name, "client_id": in.client.Identity,
	}).Inc()
	switch {
	case header.Name != "":
		return undecided, fmt.Errorf("%q would need a gateway", header.Name)
	case header.Port == in.original.Port():
		return undecided, fmt.Errorf("port %d is the proxy itself", header.Port)
	}
	in.Conn, in.original = conn, netip.AddrPortFrom(in.original.Addr(), header.Port)
	return map[proxyshim.SessionProtocol]kind{proxyshim.HTTP1: http1, proxyshim.HTTP2: http2, proxyshim.Opaque: notHTTP}[header.Protocol], nil
}

// terminate does the handshake, which says who the client is.
func (i *inbound) terminate(ctx context.Context, in *accepted, conn net.Conn, direct bool) (*tls.Conn, error) {
	secure := tls.Server(conn, i.tlsConfig(direct))
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	state := secure.ConnectionState()
	if direct && state.NegotiatedProtocol != proxyshim.ALPN {
		return nil, errors.New("TLS: the client offers no protocol of the direct path")
	}
	in.client.TLS = true
	if len(state.PeerCertificates) > 0 {
		in.client.Identity = proxyshim.ClientID(state.PeerCertificates[0])
	}
	return secure, nil
}

// detect finds out what a connection to an application's port speaks. Name is
// that of TLS which is not for this proxy, and goes on to the application.
func (i *inbound) detect(ctx context.Context, in *accepted, server *policy) (_ kind, name string, err error) {
	timeout := max(server.DetectTimeout, i.config.InboundDetect)
	conn, first, err := sniffed(in.Conn, timeout, func(b []byte) bool {
		return isTLSKnown(b) && (proxyshim.Detect(b) == proxyshim.ClientHello || isHTTPKnown(b))
	})
	if err != nil {
		return undecided, "", err
	}
	in.Conn = conn
	name, isTLS := serverName(first)
	switch {
	case isTLS && name != i.config.Workload.Request.Identity:
		return notHTTP, name, nil
	case isTLS:
		handshake, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		secure, err := i.terminate(handshake, in, conn, false)
		if err != nil {
			return undecided, "", err
		}
		in.Conn = secure
		if server.Protocol == verdict.TLS {
			return notHTTP, "", nil
		}
		if in.Conn, first, err = sniffed(secure, timeout, isHTTPKnown); err != nil {
			return undecided, "", err
		}
	}
	if k := httpKind(first); k == http1 || k == http2 || server.Protocol == verdict.Detect || server.Protocol == verdict.TLS {
		return k, "", nil
	}
	// The policy knows better.
	return http1, "", nil
}

// serveBytes passes a connection on while the policy authorizes its client.
func (i *inbound) serveBytes(ctx context.Context, in *accepted) error {
	server, _, next := in.port.policy.get()
	labels := merged(in.labels, policyLabels(server.Server, in.original.Port()))
	delete(labels, "direction")
	authorization := server.Authorize(in.client)
	switch {
	case server.Invalid != "":
		return reset(in, invalidPolicy(server.Invalid))
	case authorization == nil:
		i.metrics.tcpDeny.with(labels).Inc()
		return reset(in, fmt.Errorf("%s %s may not connect to port %d: policy %s", in.client.Addr, in.client.Identity, in.original.Port(), server.Name))
	}
	i.metrics.tcpAllow.with(merged(labels, metaLabels("authz", authorization))).Inc()
	i.config.Log.Debug("inbound", "client", in.client.Addr, "identity", in.client.Identity, "port", in.original.Port(), "server", server.Name)
	app, err := in.port.app(in.original).connect(ctx, proxyshim.Opaque)
	if err != nil {
		return reset(in, err)
	}
	defer app.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { app.Close(); in.Close() })()
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		i.buffers.join(in, app)
	}()
	for {
		select {
		case <-passed:
			return nil
		case <-next:
		}
		if server, _, next = in.port.policy.get(); server.Authorize(in.client) == nil {
			i.metrics.tcpTerminate.with(labels).Inc()
			cancel()
			<-passed
			return fmt.Errorf("%s %s may not be connected to port %d any more", in.client.Addr, in.client.Identity, in.original.Port())
		}
	}
}
