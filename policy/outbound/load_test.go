package outbound

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	stdnet "net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// The load tests measure a server in a process of its own: this test binary,
// started again. It holds Services with one HTTPRoute each, is told over its
// standard input what to do, and answers with one JSON line.

const loadServerEnv = "OUTBOUND_LOAD_SERVER"

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

// loadShape is the size of a load test: stream i is about Service i mod
// Services and comes from namespace i mod Namespaces.
type loadShape struct{ Services, Namespaces, Streams, Conns, Changes int }

// usage is what the server says of itself.
type usage struct {
	// HeapLive is what the last collection left, in bytes; Stacks the memory of stacks.
	HeapLive, Stacks int64
	Views            int
	// At is when the command was done, in Unix nanoseconds.
	At int64
}

// serveLoad is the server's process.
func serveLoad(text string) error {
	var shape loadShape
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		return err
	}
	c := newCluster(&testing.B{}, DefaultConfig())
	for i := range shape.Services {
		c.put(loadService(i))
		c.put(loadRoute(i, "/"))
	}
	metrics, err := grpcserver.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	serving := grpcserver.New(grpcserver.Config{Metrics: metrics, Naming: grpcserver.PolicyNaming})
	c.server.stopping = serving.Done()
	pb.RegisterOutboundPoliciesServer(serving, c.server)
	listener, err := stdnet.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = c.graph.Run(ctx) })
	running.Go(func() { _ = serving.Serve(ctx, listener) })
	fmt.Println(listener.Addr())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		at := time.Now().UnixNano()
		var service, n int
		if in.Text() == "gc" {
			runtime.GC()
			debug.FreeOSMemory()
		} else if _, err := fmt.Sscanf(in.Text(), "route %d %d", &service, &n); err == nil {
			c.put(loadRoute(service, fmt.Sprint("/", n)))
		}
		samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		runtimemetrics.Read(samples)
		line, err := json.Marshal(usage{HeapLive: int64(samples[0].Value.Uint64()), Stacks: int64(samples[1].Value.Uint64()), Views: c.server.views.held(), At: at})
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return in.Err()
}

func loadIP(i int) string { return fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250) }

func loadService(i int) string { return service(fmt.Sprint("svc-", i), loadIP(i)) }

func loadRoute(i int, path string) string {
	return polHTTP.route(routeDoc{name: fmt.Sprint("route-", i), parents: []string{fmt.Sprintf("group: core, kind: Service, name: svc-%d, port: 4191", i)},
		rules: fmt.Sprintf("[{matches: [{path: {value: %s}}]}]", path)})
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
}

// loadStream counts what comes; it decodes nothing.
type loadStream struct {
	service    int
	msgs, last atomic.Int64
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
		r.closeConns()
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

func (r *loadRun) closeConns() {
	for _, c := range r.conns {
		c.Close()
	}
	r.closed.Wait()
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
func (r *loadRun) open() {
	r.tb.Helper()
	for i := range r.shape.Streams {
		s := &loadStream{service: i % r.shape.Services}
		r.all = append(r.all, s)
		to := netip.AddrPortFrom(netip.MustParseAddr(loadIP(s.service)), 4191).String()
		request, err := grpcserver.Encode(spec(fmt.Sprint("client-", i%r.shape.Namespaces), to))
		if err != nil {
			r.tb.Fatal(err)
		}
		r.closed.Go(func() { s.run(r.conns[i%len(r.conns)], request.Bytes()) })
	}
	soon(r.tb, "every stream has its policy", func() bool {
		return !slices.ContainsFunc(r.all, func(s *loadStream) bool { return s.msgs.Load() == 0 })
	})
}

func (s *loadStream) run(conn *grpc.ClientConn, request []byte) {
	client, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, pb.OutboundPolicies_Watch_FullMethodName)
	if err != nil {
		return
	}
	if client.SendMsg(&request) != nil || client.CloseSend() != nil {
		return
	}
	var message []byte
	for client.RecvMsg(&message) == nil {
		s.msgs.Add(1)
		s.last.Store(time.Now().UnixNano())
	}
}

// change changes the route of a Service, and returns how long that took to
// reach the last subscriber.
func (r *loadRun) change(n int) time.Duration {
	r.tb.Helper()
	service := n % r.shape.Services
	var subscribers []*loadStream
	for _, s := range r.all {
		if s.service == service {
			subscribers = append(subscribers, s)
		}
	}
	at := r.tell(fmt.Sprintf("route %d %d", service, n+1)).At
	var last int64
	soon(r.tb, "every subscriber knows", func() bool {
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

// messages is how many have come so far.
func (r *loadRun) messages() (sum int64) {
	for _, s := range r.all {
		sum += s.msgs.Load()
	}
	return sum
}

// soon waits for a condition in real time.
func soon(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(60 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// rawCodec hands messages through as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], b...)
	return nil
}
func (rawCodec) Name() string { return "proto" }

// BenchmarkStreams measures what streams cost the server, and how long a
// change of one route takes to reach the last stream that it affects.
func BenchmarkStreams(b *testing.B) {
	for _, row := range []struct {
		name  string
		shape loadShape
	}{
		{"equal", loadShape{Services: 1, Namespaces: 1, Streams: 2000, Conns: 100, Changes: 60}},
		{"equal-from-all-namespaces", loadShape{Services: 1, Namespaces: 2000, Streams: 2000, Conns: 100, Changes: 60}},
		{"thousand-services", loadShape{Services: 1000, Namespaces: 20, Streams: 2000, Conns: 100, Changes: 60}},
		{"all-differ", loadShape{Services: 2000, Namespaces: 2000, Streams: 2000, Conns: 100, Changes: 60}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				r := startLoad(b, row.shape)
				before := r.tell("gc")
				r.open()
				opened := r.tell("gc")
				heard := r.messages()
				var reached []time.Duration
				for n := range row.shape.Changes {
					reached = append(reached, r.change(n))
				}
				if got, want := r.messages()-heard, int64(row.shape.Changes*row.shape.Streams/row.shape.Services); got != want {
					b.Errorf("%d messages for %d changes, want %d: only affected streams hear of one", got, row.shape.Changes, want)
				}
				slices.Sort(reached)
				streams := float64(row.shape.Streams)
				b.ReportMetric(float64(opened.HeapLive-before.HeapLive)/1024/streams, "live-KiB/stream")
				b.ReportMetric(float64(opened.Stacks-before.Stacks)/1024/streams, "stack-KiB/stream")
				b.ReportMetric(float64(reached[len(reached)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(reached[len(reached)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// B18: what a stream costs, and that it is given back.
func TestStreamMemory(t *testing.T) {
	r := startLoad(t, loadShape{Services: 20, Namespaces: 1, Streams: 1000, Conns: 20})
	before := r.tell("gc")
	r.open()
	opened := r.tell("gc")
	if opened.Views != 20+20+1 {
		t.Errorf("%d views for 20 Services from one namespace, want 41: they must be shared", opened.Views)
	}
	if cost := (opened.HeapLive - before.HeapLive) / int64(r.shape.Streams); cost > 5<<10 {
		t.Errorf("a stream holds %d bytes", cost)
	}
	r.closeConns()
	soon(t, "all streams are gone", func() bool { return r.tell("stat").Views == 0 })
	if kept := r.tell("gc").HeapLive - before.HeapLive; kept > 2<<20 {
		t.Errorf("%d KiB are kept", kept/1024)
	}
}

// BenchmarkAnswer measures one policy, from the snapshot to the bytes.
func BenchmarkAnswer(b *testing.B) {
	for _, count := range []int{0, 1, 20} {
		b.Run(fmt.Sprint("routes=", count), func(b *testing.B) {
			c := newCluster(b, DefaultConfig())
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
