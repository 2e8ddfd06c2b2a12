package inbound

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/test/series"
)

// served is a cluster whose server is reached over gRPC.
type served struct {
	*cluster
	addr string
	stop func()
}

func serve(t *testing.T, configure func(*Config)) *served {
	t.Helper()
	metricsOf := prometheus.NewRegistry()
	metrics, err := grpcserver.NewMetrics(metricsOf)
	if err != nil {
		t.Fatal(err)
	}
	serving := grpcserver.New(grpcserver.Config{Metrics: metrics, Naming: grpcserver.PolicyNaming})
	config := defaultConfig()
	configure(&config)
	c := newCluster(t, config)
	c.server.follower = stream.NewFollower(stream.Config{Stopping: serving.Done()})
	if err := c.registry.Register(metricsCollector{metricsOf}); err != nil {
		t.Fatal(err)
	}
	pb.RegisterInboundServerPoliciesServer(serving, c.server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return c.graph.Run(ctx) })
	running.Go(func() error { return serving.Serve(ctx, listener) })
	s := &served{cluster: c, addr: listener.Addr().String(), stop: func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	}}
	t.Cleanup(s.stop)
	return s
}

type metricsCollector struct{ *prometheus.Registry }

func (s *served) client() pb.InboundServerPoliciesClient {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return pb.NewInboundServerPoliciesClient(conn)
}

// metric is the value of the series with those labels, "name=value", or -1.
func (s *served) metric(name string, labels ...string) float64 {
	s.t.Helper()
	wanted := map[string]string{}
	for _, label := range labels {
		name, value, _ := strings.Cut(label, "=")
		wanted[name] = value
	}
	if sum, found := series.Sum(s.t, s.registry, name, wanted); found {
		return sum
	}
	return -1
}

func TestMetricsOfCalls(t *testing.T) {
	rulebook.Covers(t, "P306, P307, P308, P313")
	s := serve(t, func(*Config) {})
	s.put(podPause)
	s.put("kind: Pod\nmetadata: {namespace: ns, name: unmeshed}\nspec: {}")
	client := s.client()
	stream, err := client.WatchPort(t.Context(), &pb.PortSpec{Workload: "ns:pause", Port: 4191})
	if err != nil {
		t.Fatal(err)
	}
	receive := func(want string) {
		t.Helper()
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(message); got != strings.TrimSpace(want) {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
	receive(podDefault)
	s.put(serverAdmin)
	receive(adminDefault)
	if _, err := client.GetPort(t.Context(), &pb.PortSpec{Workload: "ns:nobody", Port: 1}); status.Code(err) != codes.NotFound || status.Convert(err).Message() != "unknown server" {
		t.Errorf("unknown Pod: %v", err)
	}
	check := func(want float64, name string, labels ...string) {
		t.Helper()
		soon(t, fmt.Sprintf("%s%v is %v", name, labels, want), func() bool { return s.metric(name, labels...) == want })
	}
	const service = "grpc_service=io.linkerd.proxy.inbound.InboundServerPolicies"
	check(1, "grpc_server_started_total", service, "grpc_method=WatchPort", "grpc_type=server_stream")
	check(2, "grpc_server_msg_sent_total", service, "grpc_method=WatchPort")
	check(0, "grpc_server_handled_total", service, "grpc_method=WatchPort", "grpc_code=OK")
	check(1, "grpc_server_handled_total", service, "grpc_method=GetPort", "grpc_code=NOT_FOUND")
	check(1, "inbound_index_pod_index_size", "namespace=ns")
	check(1, "inbound_index_server_index_size", "namespace=ns")
	check(-1, "inbound_index_http_route_index_size", "namespace=ns")
	s.put(metricsRoute)
	check(1, "inbound_index_http_route_index_size", "namespace=ns")

	s.stop()
	if _, err := stream.Recv(); err == nil || status.Code(err) != codes.Unknown || err.Error() != "EOF" {
		t.Errorf("the stream ends with %v, want OK", err)
	}
	check(1, "grpc_server_handled_total", service, "grpc_method=WatchPort", "grpc_code=OK")
}

// A client that does not read delays nobody, and when it reads again
// it gets the newest answer in few messages.
func TestClientThatDoesNotRead(t *testing.T) {
	rulebook.Covers(t, "B01, B02")
	s := serve(t, func(*Config) {})
	s.put(podPause)
	// A large answer fills the client's window.
	s.put("kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: [" + strings.Repeat("client.example.com, ", 1000) + "a]}")
	s.put(policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
	spec := &pb.PortSpec{Workload: "ns:pause", Port: 4191}
	slow, err := s.client().WatchPort(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := s.client().WatchPort(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	last := func(stream grpc.ServerStreamingClient[pb.Server], name string) (messages int) {
		t.Helper()
		for {
			message, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			messages++
			if message.Labels["name"] == name {
				return messages
			}
		}
	}
	const changes = 500
	for i := range changes {
		s.put(serverOn("linkerd-admin", "4191", ", proxyProtocol: "+[]string{"HTTP/1", "HTTP/2"}[i%2]))
		s.graph.Flush()
	}
	state.Remove(s.state, state.Servers, "ns", "linkerd-admin")
	s.put(serverOn("final", "4191", ""))
	last(quick, "final")
	if got := last(slow, "final"); got > changes/2 {
		t.Errorf("the slow client got %d messages for %d changes", got, changes)
	}
}

// More streams on one connection than gRPC allows by default.
func TestManyStreamsOnOneConnection(t *testing.T) {
	rulebook.Covers(t, "B16")
	s := serve(t, func(*Config) {})
	client := s.client()
	const streams = 300
	for i := range streams {
		s.put(pod(fmt.Sprint("p", i), "}\nspec: {}"))
	}
	var group errgroup.Group
	for i := range streams {
		group.Go(func() error {
			stream, err := client.WatchPort(t.Context(), &pb.PortSpec{Workload: fmt.Sprint("ns:p", i), Port: 80})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// Flags that cannot be understood are refused before anything starts.
func TestBadConfiguration(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"cluster-networks: there is none": func(c *Config) { c.ClusterNetworks = linkerd.Networks{} },
		"default-policy":                  func(c *Config) { c.DefaultPolicy = "allow" },
	} {
		config := defaultConfig()
		edit(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	for _, token := range []string{"ns:pod", `{"ns":"a","pod":"b"}`, `{"external_workload":"b","ns":"a","x":[{}]} `, "{", ":"} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		key, err := parseToken(token)
		if err != nil && key != (workloadKey{}) {
			t.Errorf("%q is refused and yet means %v", token, key)
		}
		if err == nil && !strings.HasPrefix(token, "{") && key.namespace+":"+key.name != token {
			t.Errorf("%q means %v", token, key)
		}
	})
}

func FuzzProbePath(f *testing.F) {
	for _, path := range []string{"", "/", "/a?b=c", "healthz", "http://h/p", "/%zz", "a:b", "//h/p"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := probePath(text)
		if err == nil && (!strings.HasPrefix(path, "/") || strings.ContainsAny(path, probeSeparator+"?#")) {
			t.Errorf("%q gives path %q", text, path)
		}
	})
}

func FuzzIdentity(f *testing.F) {
	f.Add("*.a.b")
	f.Add("spiffe://td/x")
	f.Fuzz(func(t *testing.T, text string) {
		var i identities
		i.add(text)
		if len(i.names)+len(i.suffixes) != 1 {
			t.Errorf("%q gives %d names and %d suffixes", text, len(i.names), len(i.suffixes))
		}
	})
}
