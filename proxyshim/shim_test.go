package proxyshim_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	identitypb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/logs"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
	"github.com/linkerd-lite/linkerd-lite/test/series"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(idleClientEnv); addr != "" {
		idleClient(addr)
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	destinationPort = 8086
	policyPort      = 8090
	identityPort    = 8080

	destinationName = "linkerd-destination.linkerd.serviceaccount.identity.linkerd.cluster.local"
	identityName    = "linkerd-identity.linkerd.serviceaccount.identity.linkerd.cluster.local"
	webName         = "web.emojivoto.serviceaccount.identity.linkerd.cluster.local"
)

// destinations answers Get with one message and holds the stream.
type destinations struct {
	destination.UnimplementedDestinationServer
	done <-chan struct{}
}

func (d *destinations) Get(in *destination.GetDestination, out grpc.ServerStreamingServer[destination.Update]) error {
	if err := out.Send(&destination.Update{Update: &destination.Update_NoEndpoints{NoEndpoints: &destination.NoEndpoints{}}}); err != nil {
		return err
	}
	select {
	case <-d.done:
		return nil
	case <-out.Context().Done():
		return out.Context().Err()
	}
}

// policies answers GetPort.
type policies struct {
	inbound.UnimplementedInboundServerPoliciesServer
}

func (*policies) GetPort(context.Context, *inbound.PortSpec) (*inbound.Server, error) {
	return &inbound.Server{Labels: map[string]string{"name": "x"}}, nil
}

// fixture is a control plane with a shim in front.
type fixture struct {
	t        testing.TB
	shim     *proxyshim.Shim
	identity *identity.Service
	ca       *identitytest.CA
	registry *prometheus.Registry
	log      *logs.Buffer
	// addr are the addresses by port; open is the destination port on all
	// interfaces, direct the direct path.
	addr         map[uint16]string
	open, direct string
	anchors      *x509.CertPool
	stop         func()
}

type options struct {
	clock   clock.WithTicker
	issuer  proxyshim.Issuer
	timeout time.Duration
	// strict asks clients of destination and policy for a certificate.
	strict bool
	// prepare is given the identity service before the shim starts.
	prepare func(*identity.Service)
}

func start(t testing.TB, o options) *fixture {
	t.Helper()
	f := &fixture{t: t, registry: prometheus.NewRegistry(), log: &logs.Buffer{}, addr: map[uint16]string{}}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	log := slog.New(slog.NewTextHandler(f.log, nil))

	// The authority.
	end := o.clock.Now().Add(5 * 365 * 24 * time.Hour)
	root := identitytest.NewCA(t, "root", end, nil)
	f.ca = identitytest.NewCA(t, "issuer", end, root)
	dir := t.TempDir()
	f.ca.Write(t, dir, "crt.pem", "key.pem")
	anchorsFile := filepath.Join(t.TempDir(), "anchors.pem")
	if err := os.WriteFile(anchorsFile, root.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	f.identity, err = identity.New(identity.Config{
		Files:    identity.Files{IssuerDir: dir, AnchorsFile: anchorsFile},
		Settings: linkerd.DefaultSettings(),
		Reviews:  &identitytest.Reviewer{}, Registerer: f.registry, Clock: o.clock, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	stopIdentity := parts.Start(t, time.Minute, f.identity.Run)
	f.anchors = f.identity.Anchors().Pool
	if o.issuer == nil {
		o.issuer = f.identity
	}
	if o.prepare != nil {
		o.prepare(f.identity)
	}

	// The shim.
	metrics, err := grpcserver.NewMetrics(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(addr string) net.Listener {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	config := proxyshim.Config{
		InboundPort: 4143, Issuer: o.issuer, GRPC: metrics, Registerer: f.registry, Clock: o.clock, Log: log,
	}
	for _, s := range []proxyshim.Service{
		{Port: destinationPort, ServerName: destinationName, ClientCertificate: o.strict},
		{Port: policyPort, ServerName: destinationName, ClientCertificate: o.strict, Naming: grpcserver.PolicyNaming},
		{Port: identityPort, ServerName: identityName},
	} {
		l := listen("127.0.0.1:0")
		f.addr[s.Port] = l.Addr().String()
		s.Listeners = append(s.Listeners, l)
		if s.Port == destinationPort {
			open := listen("0.0.0.0:0")
			f.open = net.JoinHostPort("127.0.0.1", portOf(open.Addr()))
			s.Listeners = append(s.Listeners, open)
		}
		config.Services = append(config.Services, s)
	}
	direct := listen("127.0.0.1:0")
	f.direct = direct.Addr().String()
	config.Inbound = []net.Listener{direct}
	f.shim, err = proxyshim.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if o.timeout != 0 {
		f.shim.SetHandshakeTimeout(o.timeout)
	}
	destination.RegisterDestinationServer(f.shim.Server(destinationPort), &destinations{done: f.shim.Server(destinationPort).Done()})
	inbound.RegisterInboundServerPoliciesServer(f.shim.Server(policyPort), &policies{})
	identitypb.RegisterIdentityServer(f.shim.Server(identityPort), f.identity)
	stopShim := parts.Start(t, time.Minute, f.shim.Run)
	f.stop = func() { stopShim(); stopIdentity() }
	return f
}

func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// plain is a client of this machine, without TLS.
func (f *fixture) plain(port uint16) *grpc.ClientConn {
	f.t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+f.addr[port], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { cc.Close() })
	return cc
}

// dial is a client of the mesh.
func (f *fixture) dial(target meshclient.Target) *grpc.ClientConn {
	f.t.Helper()
	if target.Anchors == nil {
		target.Anchors = f.anchors
	}
	cc, err := target.Dial()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { cc.Close() })
	return cc
}

// web gets the identity of a workload as its proxy does: from the identity
// service, over TLS, without a client certificate.
func (f *fixture) web() *meshclient.Identity {
	f.t.Helper()
	request, err := meshclient.NewRequest(webName)
	if err != nil {
		f.t.Fatal(err)
	}
	cc := f.dial(meshclient.Target{Addr: f.addr[identityPort], ServerName: identityName})
	id, err := request.Certify(context.Background(), cc, []byte(identitytest.Token(identity.Audience, "emojivoto", "web")))
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// get opens a Get stream and returns its first message.
func get(t testing.TB, cc *grpc.ClientConn) (grpc.ServerStreamingClient[destination.Update], error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	t.Cleanup(cancel)
	stream, err := destination.NewDestinationClient(cc).Get(ctx, &destination.GetDestination{Path: "web.emojivoto.svc.cluster.local:80"})
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

// metric sums the series of name whose labels include all of labels.
func (f *fixture) metric(name string, labels map[string]string) float64 {
	f.t.Helper()
	sum, _ := series.Sum(f.t, f.registry, name, labels)
	return sum
}

// eventually waits until check is true.
func (f *fixture) eventually(what string, check func() bool) {
	f.t.Helper()
	eventually.Holds(f.t, what, check, func() string { return "log:\n" + f.log.String() })
}

// What a proxy does: certificate first, then destination and policy by mutual
// TLS, on the ordinary ports and on the direct path.
func TestMeshClient(t *testing.T) {
	f := start(t, options{})
	web := f.web()
	for _, test := range []struct {
		name   string
		target meshclient.Target
		port   uint16
	}{
		{"ordinary port", meshclient.Target{Addr: f.addr[destinationPort]}, destinationPort},
		{"ordinary port, all interfaces", meshclient.Target{Addr: f.open}, destinationPort},
		{"direct path", meshclient.Target{Addr: f.direct, DirectPort: destinationPort}, destinationPort},
		{"ordinary policy port", meshclient.Target{Addr: f.addr[policyPort]}, policyPort},
		{"direct path to policy", meshclient.Target{Addr: f.direct, DirectPort: policyPort}, policyPort},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			test.target.ServerName, test.target.Identity = destinationName, web
			cc := f.dial(test.target)
			if test.port == policyPort {
				if _, err := inbound.NewInboundServerPoliciesClient(cc).GetPort(t.Context(), &inbound.PortSpec{}); err != nil {
					t.Fatal(err)
				}
				return
			}
			if _, err := get(t, cc); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("direct path to identity", func(t *testing.T) {
		cc := f.dial(meshclient.Target{Addr: f.direct, ServerName: identityName, Identity: web, DirectPort: identityPort})
		request, err := meshclient.NewRequest(webName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := request.Certify(t.Context(), cc, []byte(identitytest.Token(identity.Audience, "emojivoto", "web"))); err != nil {
			t.Fatal(err)
		}
	})
	rulebook.Run(t, "B74 server name in upper case", func(t *testing.T) {
		conn := tls.Client(dialTCP(t, f.addr[destinationPort]), &tls.Config{
			ServerName: strings.ToUpper(destinationName), RootCAs: f.anchors, Certificates: []tls.Certificate{web.Certificate},
		})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("no ALPN on an ordinary port", func(t *testing.T) {
		conn := tls.Client(dialTCP(t, f.addr[destinationPort]), &tls.Config{
			ServerName: destinationName, RootCAs: f.anchors, Certificates: []tls.Certificate{web.Certificate}, NextProtos: []string{proxyshim.ALPN, "h2"},
		})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != "" {
			t.Errorf("negotiated %q", got)
		}
	})
	t.Run("plaintext of this machine", func(t *testing.T) {
		if _, err := get(t, f.plain(destinationPort)); err != nil {
			t.Fatal(err)
		}
	})
}

// A proxy opens its first streams before it is certified. A certificate that
// is shown has to be good all the same.
func TestClientWithoutCertificate(t *testing.T) {
	rulebook.Covers(t, "H3")
	f := start(t, options{})
	for port, name := range map[uint16]string{destinationPort: destinationName, policyPort: destinationName, identityPort: identityName} {
		conn := tls.Client(dialTCP(t, f.addr[port]), &tls.Config{ServerName: name, RootCAs: f.anchors})
		if err := conn.Handshake(); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
		f.eventually("the connection to be counted", func() bool {
			return f.metric("tcp_open_total", map[string]string{"target_port": fmt.Sprint(port), "tls": "true", "client_id": ""}) == 1
		})
	}
	cc := f.dial(meshclient.Target{Addr: f.open, ServerName: destinationName})
	if _, err := get(t, cc); err != nil {
		t.Error(err)
	}
}

func TestGoldenMetrics(t *testing.T) {
	f := start(t, options{})
	web := f.web()
	cc := f.dial(meshclient.Target{Addr: f.addr[destinationPort], ServerName: destinationName, Identity: web})
	stream, err := get(t, cc)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{
		"direction": "inbound", "target_port": "8086", "target_ip": "127.0.0.1", "tls": "true", "client_id": webName,
		"srv_kind": "default", "srv_name": "all-unauthenticated", "srv_port": "8086",
	}
	for name, want := range map[string]float64{
		"request_total": 1, "response_total": 0, "response_latency_ms": 0,
		"tcp_open_total": 1, "tcp_open_connections": 1, "tcp_close_total": 0,
	} {
		if got := f.metric(name, labels); got != want {
			t.Errorf("%s is %v while the stream is open, want %v", name, got, want)
		}
	}
	for _, name := range []string{"tcp_read_bytes_total", "tcp_write_bytes_total"} {
		if got := f.metric(name, labels); got < 500 {
			t.Errorf("%s is %v, less than a handshake", name, got)
		}
	}
	_ = stream
	cc.Close()
	f.eventually("the end of stream and connection to be counted", func() bool {
		return f.metric("response_total", labels) == 1 && f.metric("response_latency_ms", labels) == 1 &&
			f.metric("tcp_open_connections", labels) == 0 && f.metric("tcp_close_total", labels) == 1
	})
	if _, err := get(t, f.plain(destinationPort)); err != nil {
		t.Fatal(err)
	}
	if got := f.metric("request_total", map[string]string{"tls": "no_identity", "no_tls_reason": "loopback"}); got != 1 {
		t.Errorf("%v requests in plaintext are counted, want 1", got)
	}
	direct := f.dial(meshclient.Target{Addr: f.direct, ServerName: destinationName, Identity: web, DirectPort: destinationPort})
	if _, err := get(t, direct); err != nil {
		t.Fatal(err)
	}
	if got := f.metric("inbound_tcp_transport_header_connections_total", map[string]string{
		"session_protocol": "http/2", "target_port": "8086", "client_id": webName,
	}); got != 1 {
		t.Errorf("%v connections of the direct path are counted, want 1", got)
	}
}

// A listener that breaks ends Run, and the error says which.
func TestRunNamesWhatBroke(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := grpcserver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	shim, err := proxyshim.New(proxyshim.Config{
		Services: []proxyshim.Service{{Port: 8086, Listeners: []net.Listener{l}}},
		GRPC:     metrics, Registerer: registry, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := shim.Run(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "8086") {
		t.Errorf("Run: %v", err)
	}
}
