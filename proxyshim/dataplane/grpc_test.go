package dataplane_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// serveGRPC runs a health service at a pod's address.
func (m *mesh) serveGRPC(addr string, intercept grpc.UnaryServerInterceptor) *health.Server {
	l := m.listen()
	server, service := grpc.NewServer(grpc.UnaryInterceptor(intercept)), health.NewServer()
	healthpb.RegisterHealthServer(server, service)
	go func() { _ = server.Serve(l) }()
	m.t.Cleanup(server.Stop)
	m.app(addr, l.Addr().String())
	return service
}

// health is a client of the pod's application for a service at to.
func (p *pod) health(to string) healthpb.HealthClient {
	cc, err := grpc.NewClient("passthrough:///"+to, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return p.connect(ctx, addr) }))
	if err != nil {
		p.mesh.t.Fatal(err)
	}
	p.mesh.t.Cleanup(func() { cc.Close() })
	return healthpb.NewHealthClient(cc)
}

// Calls and streams of gRPC pass, with their statuses; routes of gRPC match by
// method, and retry by status.
func TestGRPC(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	m.say("policy:10.96.0.1:80", policyOf(t, `grpc { routes { metadata { default: "grpc" }
		rules { matches { rpc { service: "grpc.health.v1.Health" } } `+first("web:80")+`
			retry { max_retries: 2 max_request_bytes: 1000 conditions { unavailable: true } backoff { min_backoff { nanos: 1000000 } max_backoff { nanos: 1000000 } } } }
		rules { matches { rpc { service: "grpc.health.v1.Health" method: "List" } } filters { failure_injector { code: 9 message: "no lists" } } `+first("web:80")+` } } }`))
	m.pod("web", "10.1.0.2")
	calls := 0
	service := m.serveGRPC("10.1.0.2:8080", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if calls++; calls < 3 {
			return nil, status.Error(codes.Unavailable, "not yet")
		}
		return next(ctx, req)
	})
	client := m.pod("client", "10.1.0.1").health("10.96.0.1:80")
	res, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING || calls != 3 {
		t.Errorf("answer %v after %d calls, error %v", res, calls, err)
	}
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("of an unknown service: %v", err)
	}
	if _, err := client.List(t.Context(), &healthpb.HealthListRequest{}); status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "no lists" {
		t.Errorf("an injected failure: %v", err)
	}
	stream, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "y"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVICE_UNKNOWN, healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		got, err := stream.Recv()
		if err != nil || got.GetStatus() != want {
			t.Fatalf("stream says %v, want %v; error %v", got, want, err)
		}
		next := healthpb.HealthCheckResponse_SERVING
		if want == next {
			next = healthpb.HealthCheckResponse_NOT_SERVING
		}
		service.SetServingStatus("y", next)
	}
}
