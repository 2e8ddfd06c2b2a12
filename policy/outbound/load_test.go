package outbound

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/test/load"
)

func TestMain(m *testing.M) { os.Exit(load.Main(m, serveLoad)) }

// loadShape is the size of a load test: stream i is about Service i mod
// Services, which has one HTTPRoute, and comes from namespace i mod Namespaces.
type loadShape struct{ Services, Namespaces, Streams, Changes int }

// serveLoad is the server's process. The command "route S N" gives the route of
// a Service the path /N.
func serveLoad(shape loadShape) error {
	c := newCluster(&testing.B{}, defaultConfig())
	for i := range shape.Services {
		c.put(loadService(i))
		c.put(loadRoute(i, "/"))
	}
	metrics, err := grpcserver.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	serving := grpcserver.New(grpcserver.Config{Metrics: metrics, Naming: grpcserver.PolicyNaming})
	c.server.follower = stream.NewFollower(stream.Config{Stopping: serving.Done()})
	pb.RegisterOutboundPoliciesServer(serving, c.server)
	addr, stop, err := load.Listen(serving, c.graph)
	if err != nil {
		return err
	}
	defer stop()
	command := func(words []string) {
		if words[0] == "route" {
			service, _ := strconv.Atoi(words[1])
			c.put(loadRoute(service, "/"+words[2]))
		}
	}
	return load.Answer(addr, command, func(u load.Usage) any {
		u.Views = c.server.views.held()
		return u
	})
}

func loadIP(i int) string { return fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250) }

func loadService(i int) string { return service(fmt.Sprint("svc-", i), loadIP(i)) }

func loadRoute(i int, path string) string {
	return polHTTP.route(routeDoc{name: fmt.Sprint("route-", i), parents: []string{fmt.Sprintf("group: core, kind: Service, name: svc-%d, port: 4191", i)},
		rules: fmt.Sprintf("[{matches: [{path: {value: %s}}]}]", path)})
}

// openLoad opens the streams of a shape.
func openLoad(r *load.Run, shape loadShape) {
	r.Open(shape.Streams, pb.OutboundPolicies_Watch_FullMethodName, func(i int) proto.Message {
		return spec(fmt.Sprint("client-", i%shape.Namespaces), loadIP(i%shape.Services)+":4191")
	})
}

// BenchmarkStreams measures what streams cost the server, and how long a
// change of one route takes to reach the last stream that it affects.
func BenchmarkStreams(b *testing.B) {
	for _, row := range []struct {
		name  string
		shape loadShape
	}{
		{"equal", loadShape{Services: 1, Namespaces: 1, Streams: 2000, Changes: 60}},
		{"equal-from-all-namespaces", loadShape{Services: 1, Namespaces: 2000, Streams: 2000, Changes: 60}},
		{"thousand-services", loadShape{Services: 1000, Namespaces: 20, Streams: 2000, Changes: 60}},
		{"all-differ", loadShape{Services: 2000, Namespaces: 2000, Streams: 2000, Changes: 60}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				r := load.Start(b, row.shape, 100)
				before := r.Tell("gc")
				openLoad(r, row.shape)
				load.ReportMemory(b, before, r.Tell("gc"), row.shape.Streams)
				heard := r.Messages()
				var reached []time.Duration
				for n := range row.shape.Changes {
					service := n % row.shape.Services
					reached = append(reached, r.Change(fmt.Sprintf("route %d %d", service, n+1), func(i int) bool { return i%row.shape.Services == service }))
				}
				if got, want := r.Messages()-heard, int64(row.shape.Changes*row.shape.Streams/row.shape.Services); got != want {
					b.Errorf("%d messages for %d changes, want %d: only affected streams hear of one", got, row.shape.Changes, want)
				}
				b.ReportMetric(load.Percentile(reached, 50), "p50-ms")
				b.ReportMetric(load.Percentile(reached, 99), "p99-ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// What a stream costs, and that it is given back.
func TestStreamMemory(t *testing.T) {
	rulebook.Covers(t, "B18")
	shape := loadShape{Services: 20, Namespaces: 1, Streams: 1000}
	r := load.Start(t, shape, 20)
	before := r.Tell("gc")
	openLoad(r, shape)
	opened := r.Tell("gc")
	if opened.Views != 20+20+1 {
		t.Errorf("%d views for 20 Services from one namespace, want 41: they must be shared", opened.Views)
	}
	if cost := (opened.HeapLive - before.HeapLive) / int64(shape.Streams); cost > 5<<10 {
		t.Errorf("a stream holds %d bytes", cost)
	}
	r.Close()
	r.WaitUntilIdle()
	if kept := r.Tell("gc").HeapLive - before.HeapLive; kept > 2<<20 {
		t.Errorf("%d KiB are kept", kept/1024)
	}
}

// BenchmarkAnswer measures one policy, from the snapshot to the bytes.
func BenchmarkAnswer(b *testing.B) {
	for _, count := range []int{0, 1, 20} {
		b.Run(fmt.Sprint("routes=", count), func(b *testing.B) {
			c := newCluster(b, defaultConfig())
			c.put(mySvc())
			for i := range count {
				c.put(polHTTP.route(routeDoc{name: fmt.Sprint("r", i), rules: "[{matches: [{path: {value: /a}}], backendRefs: [{name: my-svc, port: 1}]}]"}))
			}
			b.ReportAllocs()
			for b.Loop() {
				sub, err := c.server.subscribe(spec("ns", "my-svc.ns.svc:4191"))
				if err != nil {
					b.Fatal(err)
				}
				sub.release()
			}
		})
	}
}
