package grpcserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/series"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// policies is a policy service whose answers tests choose.
type policies struct {
	inbound.UnimplementedInboundServerPoliciesServer
	get   func(*inbound.PortSpec) (*inbound.Server, error)
	watch func(*inbound.PortSpec, grpc.ServerStreamingServer[inbound.Server]) error
}

func (p *policies) GetPort(_ context.Context, in *inbound.PortSpec) (*inbound.Server, error) {
	return p.get(in)
}

func (p *policies) WatchPort(in *inbound.PortSpec, out grpc.ServerStreamingServer[inbound.Server]) error {
	return p.watch(in, out)
}

// fixture is a running server and the means to stop it.
type fixture struct {
	registry *prometheus.Registry
	server   *grpcserver.Server
	addr     string
	client   inbound.InboundServerPoliciesClient
	cancel   context.CancelFunc
	ended    chan error
}

func start(t testing.TB, naming grpcserver.Naming, p *policies) *fixture {
	t.Helper()
	f := &fixture{registry: prometheus.NewRegistry(), ended: make(chan error, 1)}
	metrics, err := grpcserver.NewMetrics(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	f.server = grpcserver.New(grpcserver.Config{Metrics: metrics, Naming: naming})
	if p.watch == nil {
		p.watch = f.hold
	}
	inbound.RegisterInboundServerPoliciesServer(f.server, p)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { f.ended <- f.server.Serve(ctx, l) }()
	cc, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	f.client = inbound.NewInboundServerPoliciesClient(cc)
	t.Cleanup(func() {
		cancel()
		cc.Close()
		select {
		case err := <-f.ended:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(eventually.Patience):
			t.Error("Serve did not return")
		}
	})
	return f
}

// hold sends one message and waits for the end of the server or client.
func (f *fixture) hold(_ *inbound.PortSpec, out grpc.ServerStreamingServer[inbound.Server]) error {
	if err := out.Send(&inbound.Server{Labels: map[string]string{"name": "x"}}); err != nil {
		return err
	}
	select {
	case <-f.server.Done():
		return nil
	case <-out.Context().Done():
		return out.Context().Err()
	}
}

// soon waits until check is true.
func soon(t testing.TB, what string, check func() bool) {
	t.Helper()
	eventually.Holds(t, what, check, nil)
}

func TestEncodedIsShared(t *testing.T) {
	message := &inbound.Server{Labels: map[string]string{"name": "a", "kind": "server"}}
	encoded, err := grpcserver.Encode(message)
	if err != nil {
		t.Fatal(err)
	}
	codec := grpcserver.NewCodec()
	buffers, err := codec.Marshal(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if len(buffers) != 1 || &buffers[0].ReadOnlyData()[0] != &encoded.Bytes()[0] {
		t.Error("the codec copied the bytes of an encoded message")
	}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = codec.Marshal(encoded) }); allocs != 0 {
		t.Errorf("marshalling an encoded message made %v allocations", allocs)
	}
	// Freed by one stream, the bytes are still there for the next.
	buffers.Free()
	var back inbound.Server
	if err := codec.Unmarshal(buffers, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(message.GetLabels(), back.GetLabels()); diff != "" {
		t.Errorf("decoded message differs (-want +got):\n%s", diff)
	}
}

func TestEncodedOnTheWire(t *testing.T) {
	encoded, err := grpcserver.Encode(&inbound.Server{Labels: map[string]string{"name": strings.Repeat("x", 100_000)}})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, grpcserver.PolicyNaming, &policies{
		watch: func(_ *inbound.PortSpec, out grpc.ServerStreamingServer[inbound.Server]) error {
			for range 3 {
				if err := out.SendMsg(encoded); err != nil {
					return err
				}
			}
			return nil
		},
	})
	for range 2 {
		stream, err := f.client.WatchPort(t.Context(), &inbound.PortSpec{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(m.GetLabels()["name"]) != 100_000 {
				t.Fatalf("message %d has a label of %d bytes", n, len(m.GetLabels()["name"]))
			}
		}
		if n != 3 {
			t.Errorf("received %d messages, want 3", n)
		}
	}
}

func TestMetrics(t *testing.T) {
	const head = "# HELP grpc_server_handled_total Calls that ended, by status code.\n# TYPE grpc_server_handled_total counter\n"
	labels := func(code, kind, method string) string {
		return `grpc_server_handled_total{grpc_code="` + code + `",grpc_method="` + method +
			`",grpc_service="io.linkerd.proxy.inbound.InboundServerPolicies",grpc_type="` + kind + `"} `
	}
	for _, test := range []struct {
		name             string
		naming           grpcserver.Naming
		notFound, unsent string
	}{
		{"P307 policy", grpcserver.PolicyNaming, "NOT_FOUND", "0"},
		{"D 4.1 controller", grpcserver.ControllerNaming, "NotFound", "1"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			known := true
			f := start(t, test.naming, &policies{get: func(*inbound.PortSpec) (*inbound.Server, error) {
				if known {
					known = false
					return &inbound.Server{}, nil
				}
				return nil, status.Error(codes.NotFound, "unknown pod")
			}})
			if _, err := f.client.GetPort(t.Context(), &inbound.PortSpec{}); err != nil {
				t.Fatal(err)
			}
			if _, err := f.client.GetPort(t.Context(), &inbound.PortSpec{}); status.Code(err) != codes.NotFound {
				t.Fatalf("GetPort: %v", err)
			}
			want := head + labels("OK", "unary", "GetPort") + "1\n" + labels("OK", "server_stream", "WatchPort") + "0\n" +
				labels(test.notFound, "unary", "GetPort") + "1\n"
			if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "grpc_server_handled_total"); err != nil {
				t.Error(err)
			}
			if got := value(t, f.registry, "grpc_server_msg_sent_total", "GetPort"); got != test.unsent {
				t.Errorf("unary messages sent: %s, want %s", got, test.unsent)
			}
		})
	}
}

// An open stream has started, has sent, and is not handled.
func TestStreamMetrics(t *testing.T) {
	rulebook.Covers(t, "P306")
	f := start(t, grpcserver.PolicyNaming, &policies{})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := f.client.WatchPort(ctx, &inbound.PortSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the message to be counted", func() bool {
		return value(t, f.registry, "grpc_server_msg_sent_total", "WatchPort") == "1"
	})
	for name, want := range map[string]string{"grpc_server_started_total": "1", "grpc_server_msg_received_total": "1", "grpc_server_handled_total": "0"} {
		if got := value(t, f.registry, name, "WatchPort"); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	cancel()
	soon(t, "the cancelled stream to be counted", func() bool {
		n, err := testutil.GatherAndCount(f.registry, "grpc_server_handled_total")
		return err == nil && n == 3 // OK of both methods and CANCELLED
	})
	// Two services on one registry are two servers with one Metrics; two
	// Metrics on one registry are an error, not a panic (B21).
	if _, err := grpcserver.NewMetrics(f.registry); err == nil {
		t.Error("the same metrics could be registered twice")
	}
}

// value returns the value of name for a method.
func value(t testing.TB, g prometheus.Gatherer, name, method string) string {
	t.Helper()
	sum, found := series.Sum(t, g, name, map[string]string{"grpc_method": method})
	if !found {
		return "absent"
	}
	return fmt.Sprint(sum)
}

// 300 streams on one connection all get their first message.
func TestManyStreamsOnOneConnection(t *testing.T) {
	rulebook.Covers(t, "B16")
	f := start(t, grpcserver.PolicyNaming, &policies{})
	for range 300 {
		stream, err := f.client.WatchPort(t.Context(), &inbound.PortSpec{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name   string
		within time.Duration
		// before puts the server into some state and returns a check for after the stop.
		before func(t *testing.T, f *fixture) (after func())
	}{
		{"without clients", 100 * time.Millisecond, func(*testing.T, *fixture) func() { return func() {} }},
		{"streams end with OK", 200 * time.Millisecond, func(t *testing.T, f *fixture) func() {
			var streams []grpc.ServerStreamingClient[inbound.Server]
			for range 100 {
				s, err := f.client.WatchPort(t.Context(), &inbound.PortSpec{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
				streams = append(streams, s)
			}
			return func() {
				for _, s := range streams {
					if _, err := s.Recv(); !errors.Is(err, io.EOF) {
						t.Errorf("stream ended with %v, want OK", err)
					}
				}
			}
		}},
		{"a connection that says nothing", 500 * time.Millisecond, func(t *testing.T, f *fixture) func() {
			c, err := net.Dial("tcp", f.addr)
			if err != nil {
				t.Fatal(err)
			}
			// The server speaks first, so it has the connection by then.
			if _, err := io.ReadFull(c, make([]byte, 9)); err != nil {
				t.Fatal(err)
			}
			return func() { c.Close() }
		}},
		{"a client that does not read", 500 * time.Millisecond, func(t *testing.T, f *fixture) func() {
			r := dialRaw(t, f.addr)
			r.open(t, 1)
			soon(t, "the stream to open", func() bool {
				return value(t, f.registry, "grpc_server_msg_sent_total", "WatchPort") == "1"
			})
			return func() { r.close() }
		}},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			f := start(t, grpcserver.PolicyNaming, &policies{})
			after := test.before(t, f)
			begin := time.Now()
			f.cancel()
			err := <-f.ended
			took := time.Since(begin)
			f.ended <- err
			if took > eventually.Allowed(test.within) {
				t.Errorf("stop took %v, want at most %v", took, test.within)
			}
			after()
		})
	}
}

func TestPanicEndsServe(t *testing.T) {
	f := start(t, grpcserver.PolicyNaming, &policies{get: func(*inbound.PortSpec) (*inbound.Server, error) { panic("boom") }})
	if _, err := f.client.GetPort(t.Context(), &inbound.PortSpec{}); err == nil {
		t.Error("a call whose handler panicked succeeded")
	}
	err := <-f.ended
	f.ended <- nil
	var caught *lifecycle.PanicError
	if !errors.As(err, &caught) || caught.Value != "boom" || !strings.Contains(err.Error(), "GetPort") {
		t.Errorf("Serve returned %v", err)
	}
}

func TestBrokenListenerEndsServe(t *testing.T) {
	metrics, err := grpcserver.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	err = grpcserver.New(grpcserver.Config{Metrics: metrics}).Serve(t.Context(), l)
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("Serve returned %v", err)
	}
}

// An error that quotes a request of a megabyte still reaches the client with its code.
func TestLongErrors(t *testing.T) {
	rulebook.Covers(t, "F11")
	long := status.Error(codes.InvalidArgument, "Invalid authority: "+strings.Repeat("é", 1<<20))
	f := start(t, grpcserver.PolicyNaming, &policies{
		get:   func(*inbound.PortSpec) (*inbound.Server, error) { return nil, long },
		watch: func(*inbound.PortSpec, grpc.ServerStreamingServer[inbound.Server]) error { return long },
	})
	_, errGet := f.client.GetPort(t.Context(), &inbound.PortSpec{})
	stream, err := f.client.WatchPort(t.Context(), &inbound.PortSpec{})
	if err != nil {
		t.Fatal(err)
	}
	_, errWatch := stream.Recv()
	for name, err := range map[string]error{"GetPort": errGet, "WatchPort": errWatch} {
		text := status.Convert(err).Message()
		if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(text, "Invalid authority: éé") || !strings.HasSuffix(text, "é…") || len(text) > 8<<10 {
			t.Errorf("%s: %v, %d bytes of text", name, status.Code(err), len(text))
		}
	}
}
