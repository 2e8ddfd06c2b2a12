package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// Headers of proxies for each other and for applications.
const (
	headerOrigProto  = "L5d-Orig-Proto"
	headerClientID   = "L5d-Client-Id"
	headerRequireID  = "L5d-Require-Id"
	headerOverride   = "L5d-Dst-Override"
	headerCanonical  = "L5d-Dst-Canonical"
	headerError      = "L5d-Proxy-Error"
	headerConnection = "L5d-Proxy-Connection"
)

// How long connections are kept for which there are no requests.
const (
	http1Idle = 3 * time.Second
	http2Idle = 90 * time.Second
)

// handshakeTimeout is for TLS, and for what comes before the first request.
const handshakeTimeout = 10 * time.Second

// connector makes connections in one direction.
type connector struct {
	config    *Config
	identity  *identity
	metrics   *metrics
	direction string
	timeout   time.Duration
}

// peer is one address that requests and bytes are sent to. Immutable, but for
// its connections.
type peer struct {
	connector *connector
	info      *destination.WeightedAddr
	// addr is the endpoint's, dial the one that is connected to.
	addr, dial netip.AddrPort
	// target has the identity that the peer must prove; it is unused if id is
	// empty.
	id     string
	target meshclient.Target
	// http2 says that HTTP/1 requests are carried in HTTP/2.
	http2, opaque bool
	override      string
	labels        prometheus.Labels

	transports sync.Once
	h1, h2     *http.Transport
}

// peer reads what is known of an endpoint (proxy section 6).
func (c *connector) peer(info *destination.WeightedAddr) *peer {
	p := &peer{connector: c, info: info, addr: info.GetAddr().AddrPort(), labels: prometheus.Labels{}}
	p.dial = p.addr
	for name, value := range info.GetMetricLabels() {
		p.labels["dst_"+name] = value
	}
	if slices.Contains(c.config.InboundIPs, p.addr.Addr()) {
		return p // this pod
	}
	hint := info.GetProtocolHint()
	p.http2, p.opaque = hint.GetH2() != nil, hint.GetOpaque() != nil
	dns, serverName := info.GetTlsIdentity().GetDnsLikeIdentity().GetName(), info.GetTlsIdentity().GetServerName().GetName()
	switch {
	case dns != "":
		p.id = dns
		if serverName == "" {
			serverName = dns
		}
	case serverName != "":
		p.id = info.GetTlsIdentity().GetUriLikeIdentity().GetUri()
	}
	if p.id == "" {
		return p
	}
	p.target = meshclient.Target{ServerName: serverName, ID: p.id, Anchors: c.config.Workload.Destination.Anchors, Renewed: c.identity.certificate}
	if port := hint.GetOpaqueTransport().GetInboundPort(); port > 0 && port < 65535 {
		p.dial = netip.AddrPortFrom(p.addr.Addr(), uint16(port))
		p.target.DirectPort = p.addr.Port()
	}
	if host, port, err := net.SplitHostPort(info.GetAuthorityOverride().GetAuthorityOverride()); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			p.target.Name, p.target.DirectPort = host, uint16(n)
			p.override = info.GetAuthorityOverride().GetAuthorityOverride()
		}
	}
	p.target.Addr = p.dial.String()
	return p
}

// connectError is one of a peer that could not be reached: nothing was sent.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// connect makes a connection to the peer, secured if it has an identity.
func (p *peer) connect(ctx context.Context, session proxyshim.SessionProtocol) (net.Conn, error) {
	c := p.connector
	if p.dial.Addr().IsLoopback() && c.direction == outboundDirection {
		return nil, connectError{fmt.Errorf("connect to %s: peers are never on a loopback address", p.dial)}
	}
	dialing, cancel := context.WithTimeoutCause(ctx, c.timeout, errConnectTime)
	defer cancel()
	raw, err := c.config.Dial(dialing, "tcp", p.dial.String())
	if err != nil {
		if ctx.Err() == nil && errors.Is(context.Cause(dialing), errConnectTime) {
			err = errConnectTime
		}
		return nil, connectError{fmt.Errorf("connect to %s: %w", p.dial, err)}
	}
	conn := c.metrics.counted(raw, merged(directionLabels(c.direction), prometheus.Labels{"peer": "dst"}, targetLabels(p.addr), serverLabels(p.id), p.labels))
	if p.id == "" {
		return conn, nil
	}
	target := p.target
	if target.DirectPort != 0 {
		if p.opaque {
			session = proxyshim.Opaque
		}
		target.Protocol = &session
	}
	securing, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secure, err := target.Handshake(securing, conn)
	if err != nil {
		conn.Close()
		return nil, connectError{err}
	}
	return secure, nil
}

// start makes the transports when the first request comes.
func (p *peer) start() {
	transport := func(session proxyshim.SessionProtocol, idle time.Duration) *http.Transport {
		return &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return p.connect(ctx, session) },
			DisableCompression:  true,
			MaxIdleConnsPerHost: 10_000,
			IdleConnTimeout:     idle,
			Protocols:           &http.Protocols{},
		}
	}
	p.h1, p.h2 = transport(proxyshim.HTTP1, http1Idle), transport(proxyshim.HTTP2, http2Idle)
	p.h1.Protocols.SetHTTP1(true)
	p.h2.Protocols.SetUnencryptedHTTP2(true)
	if k := p.info.GetHttp2().GetKeepAlive(); k != nil {
		p.h2.HTTP2 = &http.HTTP2Config{SendPingTimeout: k.GetInterval().AsDuration(), PingTimeout: k.GetTimeout().AsDuration()}
	}
}

// retire gives up idle connections: no requests will come.
func (p *peer) retire() {
	p.transports.Do(func() {})
	if p.h1 != nil {
		p.h1.CloseIdleConnections()
		p.h2.CloseIdleConnections()
	}
}

// roundTrip sends a request in the version that it came in, or as HTTP/2 if the
// peer turns it back.
func (p *peer) roundTrip(req *http.Request) (*http.Response, error) {
	p.transports.Do(p.start)
	if p.h1 == nil {
		return nil, connectError{errors.New("the endpoint has been withdrawn")}
	}
	req.URL.Scheme, req.URL.Host = "http", p.addr.String()
	if p.override != "" {
		req.Host = p.override
	}
	transport := p.h2
	if req.ProtoMajor == 1 {
		if p.http2 && req.Header.Get("Upgrade") == "" {
			req.Header.Set(headerOrigProto, req.Proto)
		} else {
			transport = p.h1
		}
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Header.Del(headerOrigProto)
	return res, nil
}

// requires says what is wrong if the application wants another identity.
func (p *peer) requires(id string) *verdict.Answer {
	if id != "" && id != p.id {
		return errWrongIdentity
	}
	return nil
}
