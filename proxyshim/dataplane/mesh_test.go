package dataplane_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	identitypb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
	inboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// controlPlane answers proxies with what a test has said. Streams send what is
// said anew.
type controlPlane struct {
	identitypb.UnimplementedIdentityServer
	destination.UnimplementedDestinationServer
	inboundpb.UnimplementedInboundServerPoliciesServer

	ca *identitytest.CA
	t  testing.TB
	// life is how long certificates are good.
	life time.Duration

	mu      sync.Mutex
	answers map[string]any
	changed chan struct{}
	asked   map[string]int
	stop    chan struct{}
}

// say sets the answer to a question: of policy:ADDR, profile:ADDR, get:PATH and
// port:WORKLOAD:PORT.
func (c *controlPlane) say(question string, answer any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[question] = answer
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *controlPlane) questions(of string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[of]
}

// follow sends answers to a question until the call ends. An error ends it.
func follow[M any](c *controlPlane, question string, stream grpc.ServerStreamingServer[M], missing error) error {
	var sent any
	c.mu.Lock()
	c.asked[question]++
	c.mu.Unlock()
	for {
		c.mu.Lock()
		answer, changed := c.answers[question], c.changed
		c.mu.Unlock()
		switch answer := answer.(type) {
		case nil:
			if missing != nil {
				return missing
			}
		case error:
			return answer
		case *M:
			if answer != sent {
				if err := stream.Send(answer); err != nil {
					return err
				}
				sent = answer
			}
		}
		select {
		case <-changed:
		case <-c.stop:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// policies is the controlPlane's outbound side, whose method Get is another.
type policies struct {
	outboundpb.UnimplementedOutboundPoliciesServer
	c *controlPlane
}

func (p policies) Watch(spec *outboundpb.TrafficSpec, stream grpc.ServerStreamingServer[outboundpb.OutboundPolicy]) error {
	name := spec.GetAuthority()
	if spec.GetAddr() != nil {
		name = spec.GetAddr().AddrPort().String()
	}
	return follow(p.c, "policy:"+name, stream, status.Error(codes.NotFound, "No such service"))
}

func (c *controlPlane) GetProfile(in *destination.GetDestination, stream grpc.ServerStreamingServer[destination.DestinationProfile]) error {
	return follow(c, "profile:"+in.GetPath(), stream, status.Error(codes.InvalidArgument, "no profile"))
}

func (c *controlPlane) Get(in *destination.GetDestination, stream grpc.ServerStreamingServer[destination.Update]) error {
	return follow(c, "get:"+in.GetPath(), stream, nil)
}

func (c *controlPlane) WatchPort(spec *inboundpb.PortSpec, stream grpc.ServerStreamingServer[inboundpb.Server]) error {
	return follow(c, fmt.Sprintf("port:%s:%d", spec.GetWorkload(), spec.GetPort()), stream, status.Error(codes.NotFound, "unknown server"))
}

func (c *controlPlane) Certify(_ context.Context, in *identitypb.CertifyRequest) (*identitypb.CertifyResponse, error) {
	if string(in.GetToken()) != "token" {
		return nil, status.Error(codes.FailedPrecondition, "not authenticated")
	}
	csr, err := x509.ParseCertificateRequest(in.GetCertificateSigningRequest())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	end := time.Now().Add(c.life)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-time.Minute), NotAfter: end, DNSNames: csr.DNSNames,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.ca.Certificate, csr.PublicKey, c.ca.Key)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.asked["certify:"+in.GetIdentity()]++
	c.mu.Unlock()
	return &identitypb.CertifyResponse{LeafCertificate: der, ValidUntil: timestamppb.New(end)}, nil
}

// mesh is pods with made-up addresses. Listeners are on loopback; what connects
// to a pod's address gets to its proxy or its application as by a redirect.
type mesh struct {
	*controlPlane
	t       testing.TB
	control string

	mu      sync.Mutex
	changed chan struct{}
	// between has who connected from a loopback address, and what it wanted.
	between map[netip.AddrPort]addresses
	pods    map[netip.Addr]*pod
	// apps are where applications really listen.
	apps map[netip.AddrPort]string
}

type addresses struct {
	client   netip.Addr
	original netip.AddrPort
}

// pod is an application's network: with a proxy or without.
type pod struct {
	mesh      *mesh
	ip        netip.Addr
	identity  string
	listeners *dataplane.Listeners
	proxy     *dataplane.Proxy
	shutdown  context.CancelFunc
	ended     chan error
	config    dataplane.Config
}

func newMesh(t testing.TB) *mesh {
	t.Helper()
	c := &controlPlane{
		t: t, ca: identitytest.NewCA(t, "root", time.Now().Add(24*time.Hour), nil), life: time.Hour,
		answers: map[string]any{}, asked: map[string]int{}, changed: make(chan struct{}), stop: make(chan struct{}),
	}
	m := &mesh{controlPlane: c, t: t, between: map[netip.AddrPort]addresses{}, pods: map[netip.Addr]*pod{}, apps: map[netip.AddrPort]string{}, changed: make(chan struct{})}
	l := m.listen()
	m.control = l.Addr().String()
	server := grpc.NewServer()
	identitypb.RegisterIdentityServer(server, c)
	destination.RegisterDestinationServer(server, c)
	outboundpb.RegisterOutboundPoliciesServer(server, policies{c: c})
	inboundpb.RegisterInboundServerPoliciesServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		close(c.stop)
		server.Stop()
		<-done
	})
	return m
}

func (m *mesh) listen() net.Listener {
	m.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

// identityOf is that of a service account in namespace ns.
func identityOf(account string) string {
	return account + ".ns.serviceaccount.identity.linkerd.cluster.local"
}

// pod starts a proxy for a pod with this address and service account.
func (m *mesh) pod(account, ip string, change ...func(*dataplane.Config)) *pod {
	m.t.Helper()
	p := &pod{mesh: m, ip: netip.MustParseAddr(ip), identity: identityOf(account), ended: make(chan error, 1)}
	request, err := meshclient.NewRequest(p.identity)
	if err != nil {
		m.t.Fatal(err)
	}
	token := filepath.Join(m.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	anchors := x509.NewCertPool()
	anchors.AddCert(m.ca.Certificate)
	service := meshclient.Target{Addr: m.control, ServerName: "unused", Anchors: anchors}
	config := dataplane.Config{
		Workload: &meshclient.Workload{
			Request: request, TokenFile: token, PolicyWorkload: account, DestinationContext: account,
			Destination: service, Policy: service, Identity: service,
		},
		Inbound: "127.0.0.1:0", Admin: "127.0.0.1:0", Outbound: []string{"127.0.0.1:0"},
		InboundIPs: []netip.Addr{p.ip}, DefaultPolicy: "all-unauthenticated",
		ProfileNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		InboundDetect:   time.Minute, OutboundDetect: time.Minute, InboundConnect: patience, OutboundConnect: patience,
		InboundIdle: time.Minute, OutboundIdle: 5 * time.Second,
		MinRefresh: 10 * time.Millisecond, MaxRefresh: time.Hour, Grace: patience, ShutdownEndpoint: true,
		Dial:      func(ctx context.Context, _, address string) (net.Conn, error) { return m.dial(ctx, p, address) },
		Addresses: m.addresses,
		Log:       slog.New(slog.NewTextHandler(m.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&config)
	}
	if p.listeners, err = dataplane.Listen(config); err != nil {
		m.t.Fatal(err)
	}
	p.config = config
	m.mu.Lock()
	m.pods[p.ip] = p
	m.mu.Unlock()
	p.proxy = dataplane.New(config, p.listeners)
	var ctx context.Context
	ctx, p.shutdown = context.WithCancel(context.Background())
	go func() { p.ended <- p.proxy.Run(ctx) }()
	m.t.Cleanup(func() {
		p.shutdown()
		select {
		case err := <-p.ended:
			if err != nil {
				m.t.Errorf("proxy of %s: %v", ip, err)
			}
		case <-time.After(patience):
			m.t.Errorf("the proxy of %s does not end", ip)
		}
	})
	return p
}

// serve runs an HTTP application at a pod's address.
func (m *mesh) serve(addr string, handler http.Handler) {
	m.t.Helper()
	l := m.listen()
	server := &http.Server{Handler: handler, Protocols: &http.Protocols{}}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	m.t.Cleanup(func() { server.Close() })
	m.app(addr, l.Addr().String())
}

// app says where an application really listens.
func (m *mesh) app(addr, real string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apps[netip.MustParseAddrPort(addr)] = real
}

var errRefused = errors.New("connection refused")

// dial is what a proxy's connections do, and those of applications without one.
func (m *mesh) dial(ctx context.Context, from *pod, address string) (net.Conn, error) {
	if address == m.control {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	target, real := m.pods[to.Addr()], m.apps[to]
	m.mu.Unlock()
	if target != nil && target != from {
		return m.redirected(ctx, target.listeners.Inbound.Addr(), addresses{from.ip, to})
	}
	if real == "" {
		return nil, errRefused
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", real)
}

// redirected connects to a listener of a proxy in place of what was wanted.
func (m *mesh) redirected(ctx context.Context, listener net.Addr, a addresses) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.String())
	if err != nil {
		return nil, err
	}
	if a.original.Port() == 4143 {
		a.original = netip.AddrPortFrom(a.original.Addr(), listener.(*net.TCPAddr).AddrPort().Port())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.between[conn.LocalAddr().(*net.TCPAddr).AddrPort()] = a
	close(m.changed)
	m.changed = make(chan struct{})
	return conn, nil
}

// addresses are those of a connection that a proxy has accepted.
func (m *mesh) addresses(conn net.Conn) (netip.Addr, netip.AddrPort, error) {
	deadline := time.After(patience)
	for {
		m.mu.Lock()
		a, ok := m.between[conn.RemoteAddr().(*net.TCPAddr).AddrPort()]
		changed := m.changed
		m.mu.Unlock()
		if ok {
			return a.client, a.original, nil
		}
		select {
		case <-changed:
		case <-deadline:
			return netip.Addr{}, netip.AddrPort{}, errors.New("the test does not know the connection")
		}
	}
}

// connect is what the pod's application does: its connections are redirected to
// the proxy.
func (p *pod) connect(ctx context.Context, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	return p.mesh.redirected(ctx, p.listeners.Outbound[0].Addr(), addresses{p.ip, to})
}

// client is an HTTP client of the pod's application.
func (p *pod) client(h2 bool) *http.Client {
	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, address string) (net.Conn, error) { return p.connect(ctx, address) },
		DisableCompression: true, Protocols: &http.Protocols{},
	}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetUnencryptedHTTP2(h2)
	p.mesh.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
