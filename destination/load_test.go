package destination

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/test/load"
)

func TestMain(m *testing.M) { os.Exit(load.Main(m, serveLoad)) }

// loadShape is the size of a load test: Services with meshed Pods in zones.
// Stream i is about Service i mod Services.
type loadShape struct{ Services, Endpoints, Nodes, Zones, Streams, Changes int }

// usage is what the server says of itself.
type usage struct {
	load.Usage
	// Heap are the spans in use, RSS what is resident, in bytes; CPU is in seconds.
	Heap, RSS  int64
	CPU        float64
	Goroutines int
}

// loadCluster fills a State.
type loadCluster struct {
	shape   loadShape
	state   *state.State
	version int
}

func (c *loadCluster) fill() {
	for i := range c.shape.Nodes {
		put(c, state.Nodes, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprint("zone-", i%c.shape.Zones)}}})
	}
	for s := range c.shape.Services {
		put(c, state.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "load", Name: fmt.Sprint("svc-", s)},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}}})
		for i := range c.shape.Endpoints {
			put(c, state.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "load", Name: fmt.Sprintf("pod-%d-%d", s, i), Labels: map[string]string{"app": fmt.Sprint("svc-", s), linkerd.ControlPlaneNSLabel: "linkerd"}},
				Spec:       corev1.PodSpec{NodeName: fmt.Sprint("node-", i%c.shape.Nodes), ServiceAccountName: "default", Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}, proxyYAML()}},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: loadIP(s, i)},
			})
		}
		c.slice(s, c.shape.Endpoints)
	}
}

// slice writes the slice of a Service with so many endpoints.
func (c *loadCluster) slice(service, count int) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "load", Name: fmt.Sprint("slice-", service), Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("svc-", service)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080))}},
	}
	for i := range count {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{loadIP(service, i)},
			Zone:      ptr(fmt.Sprint("zone-", i%c.shape.Nodes%c.shape.Zones)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "load", Name: fmt.Sprintf("pod-%d-%d", service, i)},
		})
	}
	put(c, state.EndpointSlices, slice)
}

func put[T state.Object](c *loadCluster, kind *state.Kind[T], obj T) {
	c.version++
	obj.SetResourceVersion(strconv.Itoa(c.version))
	state.Put(c.state, kind, obj)
}

func ptr[T any](v T) *T { return &v }

func loadIP(service, i int) string {
	n := service*1024 + i + 256
	return fmt.Sprintf("10.%d.%d.%d", 100+n/65536, n/256%256, n%256)
}

// loadServer is a filled Server behind a gRPC server.
type loadServer struct {
	*loadCluster
	server *Server
	calls  *calls
	graph  *view.Graph
	addr   string
	stop   func()
}

func startLoadServer(shape loadShape) (*loadServer, error) {
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		return nil, err
	}
	l := &loadServer{loadCluster: &loadCluster{shape: shape, state: st}, graph: view.NewGraph(st)}
	l.fill()
	registry := prometheus.NewRegistry()
	grpcMetrics, err := grpcserver.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	serving := grpcserver.New(grpcserver.Config{Metrics: grpcMetrics})
	config := defaultConfig()
	config.State, config.Graph, config.Registerer, config.Stopping = st, l.graph, registry, serving.Done()
	if l.server, err = New(config); err != nil {
		return nil, err
	}
	l.calls = &calls{DestinationServer: l.server}
	pb.RegisterDestinationServer(serving, l.calls)
	if l.addr, l.stop, err = load.Listen(serving, l.graph); err != nil {
		return nil, err
	}
	return l, nil
}

// serveLoad is the server's process.
func serveLoad(shape loadShape) error {
	l, err := startLoadServer(shape)
	if err != nil {
		return err
	}
	defer l.stop()
	return load.Answer(l.addr, l.command, l.usage)
}

// command waits until nothing is held, "idle", or changes the slice of a
// Service: "slice SERVICE COUNT".
func (l *loadServer) command(words []string) {
	switch words[0] {
	case "idle":
		for next := l.calls.news.wait(); !l.server.nothingHeld(); next = l.calls.news.wait() {
			<-next
		}
	case "slice":
		service, _ := strconv.Atoi(words[1])
		count, _ := strconv.Atoi(words[2])
		l.slice(service, count)
	}
}

func (l *loadServer) usage(basic load.Usage) any {
	u := usage{Usage: basic, Goroutines: runtime.NumGoroutine()}
	for _, n := range l.server.local.held() {
		u.Views += n
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.Heap = int64(mem.HeapInuse)
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for _, line := range strings.Split(string(status), "\n") {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
				kib, _ := strconv.ParseInt(f[1], 10, 64)
				u.RSS = kib * 1024
			}
		}
	}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.CPU = float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
	}
	return u
}

// ask gives a server a command, and returns what it says.
func ask(r *load.Run, command string) (u usage) {
	r.Ask(command, &u)
	return u
}

// openLoad opens the streams of a shape.
func openLoad(r *load.Run, shape loadShape) time.Duration {
	return r.Open(shape.Streams, pb.Destination_Get_FullMethodName, func(i int) proto.Message {
		return &pb.GetDestination{
			Path:         fmt.Sprintf("svc-%d.load.svc.cluster.local:80", i%shape.Services),
			ContextToken: fmt.Sprintf(`{"ns":"load","nodeName":"node-%d","pod":"client"}`, i/shape.Services%shape.Nodes),
		}
	})
}

// changeLoad takes an endpoint from a Service or gives it back, and returns how
// long that took to reach the last subscriber.
func changeLoad(r *load.Run, shape loadShape, n int) time.Duration {
	service, count := n%shape.Services, shape.Endpoints-1+n/shape.Services%2
	return r.Change(fmt.Sprintf("slice %d %d", service, count), func(i int) bool { return i%shape.Services == service })
}

// BenchmarkStreams measures what streams cost the server: memory per stream,
// the rate at which they open, and how long a change takes to reach the last
// subscriber of a Service, with the processor time of all changes.
func BenchmarkStreams(b *testing.B) {
	for _, shape := range []loadShape{
		{Services: 20, Endpoints: 50, Nodes: 50, Zones: 3, Streams: 1000, Changes: 60},
		{Services: 20, Endpoints: 50, Nodes: 50, Zones: 3, Streams: 10000, Changes: 60},
		{Services: 20, Endpoints: 10, Nodes: 50, Zones: 3, Streams: 10000, Changes: 60},
		{Services: 1, Endpoints: 50, Nodes: 50, Zones: 3, Streams: 10000, Changes: 60},
		{Services: 20, Endpoints: 1000, Nodes: 50, Zones: 3, Streams: 1000, Changes: 60},
		{Services: 1000, Endpoints: 10, Nodes: 50, Zones: 3, Streams: 10000, Changes: 60},
	} {
		b.Run(fmt.Sprintf("services=%d/endpoints=%d/streams=%d", shape.Services, shape.Endpoints, shape.Streams), func(b *testing.B) {
			for b.Loop() {
				r := load.Start(b, shape, 100)
				before := ask(r, "gc")
				took := openLoad(r, shape)
				opened := ask(r, "gc")
				var reached []time.Duration
				for n := range shape.Changes {
					reached = append(reached, changeLoad(r, shape, n))
				}
				after := ask(r, "stat")
				streams := float64(shape.Streams)
				b.ReportMetric(float64(opened.Heap-before.Heap)/1024/streams, "heap-KiB/stream")
				load.ReportMemory(b, before.Usage, opened.Usage, shape.Streams)
				b.ReportMetric(float64(opened.RSS-before.RSS)/1024/streams, "rss-KiB/stream")
				b.ReportMetric(streams/took.Seconds(), "streams/s")
				b.ReportMetric(after.CPU-opened.CPU, "cpu-s/changes")
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
	shape := loadShape{Services: 20, Endpoints: 50, Nodes: 1, Zones: 1, Streams: 2000}
	r := load.Start(t, shape, 20)
	before := r.Tell("gc")
	openLoad(r, shape)
	opened := r.Tell("gc")
	if opened.Views != 20+20+1 {
		t.Errorf("%d views for 20 Services of one namespace in one zone, want 41: they must be shared", opened.Views)
	}
	if cost := (opened.HeapLive - before.HeapLive) / int64(shape.Streams); cost > 8<<10 {
		t.Errorf("a stream holds %d bytes", cost)
	}
	r.Close()
	r.Tell("idle")
	if kept := r.Tell("gc").HeapLive - before.HeapLive; kept > 2<<20 {
		t.Errorf("%d KiB are kept", kept/1024)
	}
}
