package destination

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	stdnet "net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// The load tests measure a server in a process of its own: this test binary,
// started again. It holds Services with meshed Pods in zones, is told over its
// standard input what to do, and answers with one JSON line.

const loadServerEnv = "DESTINATION_LOAD_SERVER"

func TestMain(m *testing.M) {
	if shape := os.Getenv(loadServerEnv); shape != "" {
		if err := serveLoad(shape); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// loadShape is the size of a load test.
type loadShape struct{ Services, Endpoints, Nodes, Zones, Streams, Conns, Changes int }

// usage is what the server says of itself.
type usage struct {
	// HeapLive is what the last collection left, in bytes; Heap the spans in use.
	HeapLive, Heap, Stacks, RSS int64
	CPU                         float64
	Goroutines, Views           int
	// At is when the server was asked, in Unix nanoseconds.
	At int64
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
	config := DefaultConfig()
	config.State, config.Graph, config.Registerer, config.Stopping = st, l.graph, registry, serving.Done()
	if l.server, err = New(config); err != nil {
		return nil, err
	}
	l.calls = &calls{DestinationServer: l.server}
	pb.RegisterDestinationServer(serving, l.calls)
	listener, err := stdnet.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = l.graph.Run(ctx) })
	running.Go(func() { _ = serving.Serve(ctx, listener) })
	l.stop = func() { cancel(); running.Wait() }
	return l, nil
}

// serveLoad is the server's process.
func serveLoad(text string) error {
	var shape loadShape
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		return err
	}
	l, err := startLoadServer(shape)
	if err != nil {
		return err
	}
	defer l.stop()
	fmt.Println(l.addr)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		at := time.Now().UnixNano()
		switch words[0] {
		case "gc":
			runtime.GC()
			debug.FreeOSMemory()
		case "idle":
			for next := l.calls.news.wait(); !l.server.nothingHeld(); next = l.calls.news.wait() {
				<-next
			}
		case "slice":
			service, _ := strconv.Atoi(words[1])
			count, _ := strconv.Atoi(words[2])
			l.slice(service, count)
		}
		u := readUsage()
		u.At = at
		for _, n := range l.server.local.held() {
			u.Views += n
		}
		line, err := json.Marshal(u)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return in.Err()
}

func readUsage() usage {
	samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	runtimemetrics.Read(samples)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u := usage{HeapLive: int64(samples[0].Value.Uint64()), Heap: int64(mem.HeapInuse), Stacks: int64(samples[1].Value.Uint64()), Goroutines: runtime.NumGoroutine()}
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

// loadRun is a client of a server process.
type loadRun struct {
	tb     testing.TB
	shape  loadShape
	in     io.Writer
	out    *bufio.Scanner
	conns  []*grpc.ClientConn
	all    []*loadStream
	closed sync.WaitGroup
	// heard has news when a stream has had a message.
	heard  news
	filled atomic.Int64
}

// loadStream counts what comes; it decodes no more than it must.
type loadStream struct {
	service int
	bytes   atomic.Int64
	msgs    atomic.Int64
	last    atomic.Int64
}

func startLoad(tb testing.TB, shape loadShape) *loadRun {
	tb.Helper()
	text, err := json.Marshal(shape)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadServerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	r := &loadRun{tb: tb, shape: shape, in: in, out: bufio.NewScanner(out)}
	tb.Cleanup(func() {
		for _, c := range r.conns {
			c.Close()
		}
		r.closed.Wait()
		in.Close()
		_ = cmd.Wait()
	})
	addr := r.line()
	for range shape.Conns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
		if err != nil {
			tb.Fatal(err)
		}
		r.conns = append(r.conns, conn)
	}
	return r
}

func (r *loadRun) line() string {
	r.tb.Helper()
	if !r.out.Scan() {
		r.tb.Fatal("the server is gone", r.out.Err())
	}
	return r.out.Text()
}

// tell gives a command and returns what the server says.
func (r *loadRun) tell(command string) usage {
	r.tb.Helper()
	fmt.Fprintln(r.in, command)
	var u usage
	if err := json.Unmarshal([]byte(r.line()), &u); err != nil {
		r.tb.Fatal(err)
	}
	return u
}

// open opens the streams and waits until each has had a message.
func (r *loadRun) open() time.Duration {
	r.tb.Helper()
	start := time.Now()
	for i := range r.shape.Streams {
		s := &loadStream{service: i % r.shape.Services}
		r.all = append(r.all, s)
		request := getRequest(fmt.Sprintf("svc-%d.load.svc.cluster.local:80", s.service), fmt.Sprintf(`{"ns":"load","nodeName":"node-%d","pod":"client"}`, i/r.shape.Services%r.shape.Nodes))
		r.closed.Go(func() { s.run(r.conns[i%len(r.conns)], request, r) })
	}
	r.heard.until(r.tb, "every stream is filled", func() bool { return r.filled.Load() == int64(r.shape.Streams) })
	return time.Since(start)
}

func (s *loadStream) run(conn *grpc.ClientConn, request []byte, r *loadRun) {
	client, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, pb.Destination_Get_FullMethodName)
	if err != nil {
		return
	}
	if client.SendMsg(&request) != nil || client.CloseSend() != nil {
		return
	}
	var message []byte
	for client.RecvMsg(&message) == nil {
		s.bytes.Add(int64(len(message)))
		if s.msgs.Add(1) == 1 {
			r.filled.Add(1)
		}
		s.last.Store(time.Now().UnixNano())
		r.heard.tell()
	}
}

// change takes an endpoint from a Service or gives it back, and returns how
// long that took to reach the last subscriber.
func (r *loadRun) change(n int) time.Duration {
	r.tb.Helper()
	service := n % r.shape.Services
	count := r.shape.Endpoints - 1 + n/r.shape.Services%2
	var subscribers []*loadStream
	for _, s := range r.all {
		if s.service == service {
			subscribers = append(subscribers, s)
		}
	}
	at := r.tell(fmt.Sprintf("slice %d %d", service, count)).At
	var last int64
	r.heard.until(r.tb, "every subscriber knows", func() bool {
		last = 0
		for _, s := range subscribers {
			heard := s.last.Load()
			if heard < at {
				return false
			}
			last = max(last, heard)
		}
		return true
	})
	return time.Duration(last - at)
}

// rawCodec hands messages through as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], b...)
	return nil
}
func (rawCodec) Name() string { return "proto" }

func getRequest(path, token string) []byte {
	request, err := grpcserver.Encode(&pb.GetDestination{Path: path, ContextToken: token})
	if err != nil {
		panic(err)
	}
	return request.Bytes()
}

// BenchmarkStreams measures what streams cost the server: memory per stream,
// the rate at which they open, and how long a change takes to reach the last
// subscriber of a Service, with the processor time of all changes.
func BenchmarkStreams(b *testing.B) {
	for _, shape := range []loadShape{
		{Services: 20, Endpoints: 50, Nodes: 50, Zones: 3, Streams: 1000, Conns: 100, Changes: 60},
		{Services: 20, Endpoints: 50, Nodes: 50, Zones: 3, Streams: 10000, Conns: 100, Changes: 60},
		{Services: 20, Endpoints: 10, Nodes: 50, Zones: 3, Streams: 10000, Conns: 100, Changes: 60},
		{Services: 1, Endpoints: 50, Nodes: 50, Zones: 3, Streams: 10000, Conns: 100, Changes: 60},
		{Services: 20, Endpoints: 1000, Nodes: 50, Zones: 3, Streams: 1000, Conns: 100, Changes: 60},
		{Services: 1000, Endpoints: 10, Nodes: 50, Zones: 3, Streams: 10000, Conns: 100, Changes: 60},
	} {
		b.Run(fmt.Sprintf("services=%d/endpoints=%d/streams=%d", shape.Services, shape.Endpoints, shape.Streams), func(b *testing.B) {
			for b.Loop() {
				r := startLoad(b, shape)
				before := r.tell("gc")
				took := r.open()
				opened := r.tell("gc")
				var reached []time.Duration
				for n := range shape.Changes {
					reached = append(reached, r.change(n))
				}
				after := r.tell("stat")
				slices.Sort(reached)
				streams := float64(shape.Streams)
				b.ReportMetric(float64(opened.Heap-before.Heap)/1024/streams, "heap-KiB/stream")
				b.ReportMetric(float64(opened.HeapLive-before.HeapLive)/1024/streams, "live-KiB/stream")
				b.ReportMetric(float64(opened.Stacks-before.Stacks)/1024/streams, "stack-KiB/stream")
				b.ReportMetric(float64(opened.RSS-before.RSS)/1024/streams, "rss-KiB/stream")
				b.ReportMetric(streams/took.Seconds(), "streams/s")
				b.ReportMetric(after.CPU-opened.CPU, "cpu-s/changes")
				b.ReportMetric(float64(reached[len(reached)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(reached[len(reached)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// B18: what a stream costs, and that it is given back.
func TestStreamMemory(t *testing.T) {
	r := startLoad(t, loadShape{Services: 20, Endpoints: 50, Nodes: 1, Zones: 1, Streams: 2000, Conns: 20})
	before := r.tell("gc")
	r.open()
	opened := r.tell("gc")
	if opened.Views != 20+20+1 {
		t.Errorf("%d views for 20 Services of one namespace in one zone, want 41: they must be shared", opened.Views)
	}
	if cost := (opened.HeapLive - before.HeapLive) / int64(r.shape.Streams); cost > 8<<10 {
		t.Errorf("a stream holds %d bytes", cost)
	}
	for _, c := range r.conns {
		c.Close()
	}
	r.tell("idle")
	if kept := r.tell("gc").HeapLive - before.HeapLive; kept > 2<<20 {
		t.Errorf("%d KiB are kept", kept/1024)
	}
}
