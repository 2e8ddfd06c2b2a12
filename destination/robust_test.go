package destination

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/test/load"
)

// These tests speak gRPC to a server of this process.

func serveInProcess(t testing.TB, shape loadShape) *loadServer {
	t.Helper()
	l, err := startLoadServer(shape)
	if err != nil {
		t.Fatal(err)
	}
	l.stop = sync.OnceFunc(l.stop)
	t.Cleanup(l.stop)
	return l
}

func (l *loadServer) dial(t testing.TB) pb.DestinationClient {
	t.Helper()
	conn, err := grpc.NewClient(l.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewDestinationClient(conn)
}

func openGet(t testing.TB, client pb.DestinationClient, service int, node string) grpc.ServerStreamingClient[pb.Update] {
	t.Helper()
	stream, err := client.Get(t.Context(), &pb.GetDestination{Path: fmt.Sprintf("svc-%d.load.svc.cluster.local:80", service), ContextToken: `{"nodeName":"` + node + `"}`})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// receive applies one message to what the client holds.
func receive(t testing.TB, stream grpc.ServerStreamingClient[pb.Update], held map[string]string) {
	t.Helper()
	u, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range u.GetAdd().GetAddrs() {
		held[addrText(w.Addr)] = describe(w)
	}
	for _, a := range u.GetRemove().GetAddrs() {
		delete(held, addrText(a))
	}
}

// An existing Service without endpoints is silence (D section 0), without even
// the headers of an answer; they leave with the first message.
func TestSilenceHasNoHeaders(t *testing.T) {
	rulebook.Covers(t, "D10")
	l := serveInProcess(t, loadShape{Services: 2, Endpoints: 1, Nodes: 1, Zones: 1})
	l.slice(0, 0)
	client := l.dial(t)
	silent := openGet(t, client, 0, "node-0")
	headers := make(chan struct{})
	go func() {
		defer close(headers)
		_, _ = silent.Header()
	}()
	// On the same connection, and taken up after the silent call.
	receive(t, openGet(t, client, 1, "node-0"), map[string]string{})
	select {
	case <-headers:
		t.Error("headers without a message")
	default:
	}
	l.slice(0, 1)
	<-headers
	receive(t, silent, map[string]string{})
}

func heapLive() int64 {
	runtime.GC()
	runtime.GC()
	return load.ReadUsage().HeapLive
}

// More streams on one connection than gRPC allows by default.
func TestManyStreamsOnOneConnection(t *testing.T) {
	l := serveInProcess(t, loadShape{Services: 300, Endpoints: 1, Nodes: 1, Zones: 1})
	client := l.dial(t)
	rulebook.Run(t, "B16, D91 Get", func(t *testing.T) {
		var streams []grpc.ServerStreamingClient[pb.Update]
		for i := range 300 {
			streams = append(streams, openGet(t, client, i, ""))
		}
		for i, s := range streams {
			held := map[string]string{}
			if receive(t, s, held); len(held) != 1 {
				t.Errorf("stream %d holds %v", i, held)
			}
		}
	})
	rulebook.Run(t, "B16 GetProfile", func(t *testing.T) {
		var streams []grpc.ServerStreamingClient[pb.DestinationProfile]
		for i := range 300 {
			streams = append(streams, openProfile(t, client, fmt.Sprintf("svc-%d.load.svc.cluster.local:80", i)))
		}
		for i, s := range streams {
			if _, err := s.Recv(); err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		}
	})
}

// Streams end with OK when the server stops, also in the middle of an update.
func TestStop(t *testing.T) {
	rulebook.Covers(t, "B20, D89")
	goroutines := runtime.NumGoroutine()
	l := serveInProcess(t, loadShape{Services: 1, Endpoints: 50, Nodes: 3, Zones: 3})
	var streams []grpc.ServerStreamingClient[pb.Update]
	client := l.dial(t)
	for range 1000 {
		streams = append(streams, openGet(t, client, 0, "node-1"))
	}
	for _, s := range streams {
		receive(t, s, map[string]string{})
	}
	l.slice(0, 49)
	l.stop()
	for i, s := range streams {
		var err error
		for err == nil {
			_, err = s.Recv()
		}
		if code := status.Code(err); err.Error() != "EOF" && code != codes.OK && code != codes.Unavailable {
			t.Fatalf("stream %d ended with %v", i, err)
		}
	}
	l.calls.news.until(t, "all streams are gone", l.server.nothingHeld)
	goroutinesEnd(t, goroutines+20)
}

// nothingHeld tells whether nothing is held for streams.
func (s *Server) nothingHeld() bool {
	held := 0
	for _, n := range s.local.held() {
		held += n
	}
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	held += s.profiles.services.Held() + s.profiles.endpoints.Held() + s.profiles.metrics.held() + s.profiles.metrics.versions.Held()
	return held+s.zones.Held()+s.members.Held()+len(s.metrics.groups) == 0
}

// A thousand streams are closed at the moment of an update, then the server stops.
func TestStreamsClosedDuringUpdate(t *testing.T) {
	rulebook.Covers(t, "B20")
	goroutines := runtime.NumGoroutine()
	l := serveInProcess(t, loadShape{Services: 1, Endpoints: 50, Nodes: 3, Zones: 3})
	conn, err := grpc.NewClient(l.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 1000 {
		stream, err := pb.NewDestinationClient(conn).Get(ctx, &pb.GetDestination{Path: "svc-0.load.svc.cluster.local:80", ContextToken: fmt.Sprintf(`{"nodeName":"node-%d"}`, i%3)})
		if err != nil {
			t.Fatal(err)
		}
		receive(t, stream, map[string]string{})
	}
	var group sync.WaitGroup
	group.Go(cancel)
	for n := range 20 {
		l.slice(0, 49-n)
	}
	group.Wait()
	l.calls.news.until(t, "all streams are gone", l.server.nothingHeld)
	conn.Close()
	l.stop()
	goroutinesEnd(t, goroutines+5)
}

// 10,000 short streams, some of them closed in the middle of an update, leave nothing behind.
func TestShortStreamsLeaveNothing(t *testing.T) {
	rulebook.Covers(t, "B18, B19, B20")
	l := serveInProcess(t, loadShape{Services: 20, Endpoints: 20, Nodes: 50, Zones: 3})
	round := func(streams int) {
		conn, err := grpc.NewClient(l.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		client := pb.NewDestinationClient(conn)
		var group sync.WaitGroup
		gate := make(chan struct{}, 200)
		for i := range streams {
			gate <- struct{}{}
			group.Go(func() {
				defer func() { <-gate }()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream, err := client.Get(ctx, &pb.GetDestination{Path: fmt.Sprintf("svc-%d.load.svc.cluster.local:80", i%20), ContextToken: fmt.Sprintf(`{"nodeName":"node-%d"}`, i%50)})
				if err == nil && i%3 > 0 {
					_, _ = stream.Recv()
				}
			})
			if i%50 == 0 {
				l.slice(i/50%20, 10+i/50%10)
			}
		}
		group.Wait()
	}
	round(500) // what is made once
	l.calls.news.until(t, "the first streams are gone", l.server.nothingHeld)
	heap, goroutines := heapLive(), runtime.NumGoroutine()
	round(10000)
	l.calls.news.until(t, "all streams are gone", l.server.nothingHeld)
	if n := l.graph.Size(); n != 0 {
		t.Errorf("views depend on %d topics", n)
	}
	goroutinesEnd(t, goroutines+5)
	if grown := heapLive() - heap; grown > 1<<20 {
		t.Errorf("the heap has grown by %d KiB", grown/1024)
	}
}

// Streams come and go while a Server turns on and off; run with -race.
func TestStreamsDuringServerChanges(t *testing.T) {
	rulebook.Covers(t, "B07, B08")
	l := serveInProcess(t, loadShape{Services: 1, Endpoints: 20, Nodes: 3, Zones: 3})
	client := l.dial(t)
	var toggling, group sync.WaitGroup
	stop := make(chan struct{})
	toggling.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			server := decode(t, serverYAML("s", "{}", "8080", []string{"opaque", "HTTP/2"}[n%2]), &policyv1beta3.Server{})
			server.Namespace = "load"
			put(l.loadCluster, state.Servers, server)
		}
	})
	for i := range 50 {
		group.Go(func() {
			for range 10 {
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := client.Get(ctx, &pb.GetDestination{Path: "svc-0.load.svc.cluster.local:80", ContextToken: fmt.Sprintf(`{"nodeName":"node-%d"}`, i%3)})
				if err == nil {
					held := map[string]string{}
					for range 3 {
						receive(t, stream, held)
					}
				}
				cancel()
			}
		})
	}
	group.Wait()
	close(stop)
	toggling.Wait()
	l.calls.news.until(t, "all streams are gone", l.server.nothingHeld)
	// What remains is what a last look shows.
	opaque := decode(t, serverYAML("s", "{}", "8080", "opaque"), &policyv1beta3.Server{})
	opaque.Namespace = "load"
	put(l.loadCluster, state.Servers, opaque)
	held := map[string]string{}
	stream := openGet(t, client, 0, "node-0")
	for receive(t, stream, held); !allOpaque(held); {
		receive(t, stream, held)
	}
}

func allOpaque(held map[string]string) bool {
	for _, what := range held {
		if !strings.HasPrefix(what, "opaque") {
			return false
		}
	}
	return true
}

// What a blocked stream holds on to are shared bytes and one snapshot, and
// streams of equal effect share one view, whatever their nodes.
func TestStreamsShareViews(t *testing.T) {
	rulebook.Covers(t, "B01, B18")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		c.apply(nodeYAML("n1", "a"), nodeYAML("n2", "a"), nodeYAML("n3", "b"))
		streams := []*getStream{c.get(name1), c.get(name1, "n1"), c.get(name1, "n2"), c.get(name1, "n3")}
		if n := c.server.local.seen.Held(); n != 1 {
			t.Errorf("without zones: %d views, want 1", n)
		}
		c.apply(sliceYAML("n1-v4", 8989, "10.0.0.12 name1-1, zone: a"))
		if n := c.server.local.seen.Held(); n != 3 {
			t.Errorf("with zones: %d views, want 3: no zone, a, b", n)
		}
		c.apply(serviceYAML("name1", "{port: 8989}", "  internalTrafficPolicy: Local"))
		if n := c.server.local.seen.Held(); n != 4 {
			t.Errorf("with policy Local: %d views, want one per node", n)
		}
		c.apply(web[0])
		for i, s := range streams {
			s.hold()
			if i == 1 || i == 2 {
				continue
			}
			s.wantSameAs(c.get(name1, []string{"", "n1", "n2", "n3"}[i]))
		}
		if streams[1].all() != streams[2].all() {
			t.Error("clients of one zone hold different things")
		}
	})
}

// The group's metrics, and that they end with the group.
func TestSubscriberMetrics(t *testing.T) {
	rulebook.Covers(t, "D90, L16, L19")
	registry := prometheus.NewRegistry()
	config := testConfig()
	config.Registerer = registry
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.base()
		one, two, three := c.get(name1, "n1"), c.get(name1, "n1"), c.get(name1, "n2")
		for _, s := range []*getStream{one, two, three} {
			s.want("A 10.0.0.12:8989")
		}
		c.apply(sliceYAML("b", 8989, "10.0.0.13"))
		one.want("A 10.0.0.13:8989")
		two.want("A 10.0.0.13:8989")
		n1 := "cluster=local hostname= namespace=ns nodename=n1 port=8989 service=name1"
		n2 := strings.Replace(n1, "n1", "n2", 1)
		for name, want := range map[string]float64{
			"endpoints_subscribers " + n1: 2, "endpoints_subscribers " + n2: 1,
			"endpoints_updates " + n1: 1, "endpoints_pods " + n1: 2, "endpoints_exists " + n1: 1,
		} {
			if got, ok := gather(t, registry)[name]; !ok || got != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
		c.remove("Service/ns/name1")
		if got := gather(t, registry)["endpoints_exists "+n1]; got != 0 {
			t.Errorf("endpoints_exists %v after the Service is gone", got)
		}
		one.Cancel()
		two.Cancel()
		c.settle()
		if _, ok := gather(t, registry)["endpoints_subscribers "+n1]; ok {
			t.Error("the series outlives its streams")
		}
	})
}

// gather returns all gauges and counters by name and labels.
func gather(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			value := m.GetGauge().GetValue()
			if family.GetType() == dto.MetricType_COUNTER {
				value = m.GetCounter().GetValue()
			}
			values[family.GetName()+" "+labelText(labels)] = value
		}
	}
	return values
}

// Objects that lack all that the API lets them lack harm nobody: what can be
// said is said, on all kinds of streams.
func TestObjectsWithMissingFields(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		s, service, pod := c.get(name1), c.profile(name1), c.profile(pod1At)
		s.want("A 10.0.0.12:8989")
		service.want(name1Name)
		pod.want(pod1At + " name1-1")
		meta := func(kind, name string) string {
			return "kind: " + kind + "\nmetadata: {namespace: ns, name: " + name + "}\n"
		}
		c.apply(
			meta("Service", "bare"), meta("Pod", "bare"), meta("EndpointSlice", "bare"),
			"kind: Server\nmetadata: {namespace: ns, name: bare}\nspec: {podSelector: {}, port: 80}\n",
			meta("ExternalWorkload", "bare"), meta("ReplicaSet", "bare"), meta("Job", "bare"),
			"kind: Node\nmetadata: {name: bare}\n",
			"kind: ServiceProfile\nmetadata: {namespace: ns, name: bare.ns.svc.cluster.local}\n",
			"kind: EndpointSlice\nmetadata: {namespace: ns, name: a, labels: {kubernetes.io/service-name: bare}}\nports: [{}]\nendpoints:\n"+
				"- {}\n- {addresses: []}\n- {addresses: ['10.0.0.50'], targetRef: {}}\n- {addresses: ['10.0.0.51'], targetRef: {kind: Pod}}\n"+
				"- {addresses: ['10.0.0.52'], targetRef: {kind: Pod, namespace: ns, name: bare}, hints: {}}\n"+
				"- {addresses: ['10.0.0.53'], targetRef: {kind: ExternalWorkload, name: bare}}\n- {addresses: ['10.0.0.54']}\n",
			podYAML("name1-2", "10.0.0.60", ownedBy("ReplicaSet", "bare")),
			sliceYAML("b", 8989, "10.0.0.60 name1-2"),
		)
		s.want("A 10.0.0.60:8989")
		s.wantOpen()
		service.want()
		pod.want()
		// Its port is not defined and is taken as it is.
		c.get("bare.ns.svc.cluster.local:80", "bare").want("A 10.0.0.52:80 10.0.0.53:80 10.0.0.54:80")
		c.profile("bare.ns.svc.cluster.local:80").want("bare.ns.svc.cluster.local")
		c.profile("10.0.0.52:80").want("10.0.0.52:80")
	})
}
