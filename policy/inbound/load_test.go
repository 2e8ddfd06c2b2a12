package inbound

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
	runtimemetrics "runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// The load tests measure a server in a process of its own: this test binary,
// started again. It is told over its standard input what to do, and answers
// with one JSON line.

const loadServerEnv = "INBOUND_LOAD_SERVER"

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

// loadShape is the size of a load test. All objects are in one namespace. Pod
// p is selected by Server p modulo Servers, which has one policy of its own.
type loadShape struct {
	Servers, Pods, Streams, Conns int
	// Distinct gives each Pod a probe of its own, and so each port an answer
	// of its own.
	Distinct bool
}

// server is the number of the Server that owns the port of stream i.
func (s loadShape) server(i int) int { return i % s.Servers }

// usage is what the server says of itself: bytes of live heap and of stacks,
// views held, and when it was asked, in Unix nanoseconds.
type usage struct {
	HeapLive, Stacks int64
	Views            int
	At               int64
}

// loadCluster fills a State.
type loadCluster struct {
	shape   loadShape
	state   *state.State
	version int
}

func (c *loadCluster) fill() {
	for i := range c.shape.Servers {
		name := fmt.Sprint("s", i)
		store(c, state.Servers, &policyv1beta3.Server{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1beta3.ServerSpec{
			PodSelector: &apis.LabelSelector{MatchLabels: map[string]string{"app": name}}, Port: intstr.FromInt32(8080), ProxyProtocol: apis.ProxyProtocolHTTP1,
		}})
		c.policy(i, false)
	}
	for i := range c.shape.Pods {
		path := "/ready"
		if c.shape.Distinct {
			path += fmt.Sprint(i)
		}
		store(c, state.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), UID: "u", Labels: map[string]string{"app": fmt.Sprint("s", i%c.shape.Servers), linkerd.ControlPlaneNSLabel: "linkerd"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}}}}}},
		})
	}
}

// policy writes the policy of a Server in one of two versions.
func (c *loadCluster) policy(server int, other bool) {
	c.target(fmt.Sprint("s", server), apis.LocalTargetRef{Group: apis.Group, Kind: "Server", Name: fmt.Sprint("s", server)}, other)
}

func (c *loadCluster) target(name string, target apis.LocalTargetRef, other bool) {
	account := "a"
	if other {
		account = "b"
	}
	store(c, state.AuthorizationPolicies, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.AuthorizationPolicySpec{
		TargetRef: target, RequiredAuthenticationRefs: []apis.NamespacedTargetRef{{Kind: "ServiceAccount", Name: account}},
	}})
}

func store[T state.Object](c *loadCluster, kind *state.Kind[T], obj T) {
	c.version++
	obj.SetNamespace("load")
	obj.SetResourceVersion(strconv.Itoa(c.version))
	state.Put(c.state, kind, obj)
}

// command changes the State: "policy N V" the policy of a Server, "namespace V"
// one for all Servers.
func (c *loadCluster) command(words []string) {
	switch words[0] {
	case "gc":
		runtime.GC()
		runtime.GC()
	case "policy":
		server, _ := strconv.Atoi(words[1])
		c.policy(server, words[2] == "1")
	case "namespace":
		c.target("all", apis.LocalTargetRef{Kind: "Namespace", Name: "load"}, words[1] == "1")
	}
}

// serveLoad is the server's process.
func serveLoad(text string) error {
	var shape loadShape
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		return err
	}
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		return err
	}
	c := &loadCluster{shape: shape, state: st}
	metrics, err := grpcserver.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	serving := grpcserver.New(grpcserver.Config{Metrics: metrics, Naming: grpcserver.PolicyNaming})
	config := DefaultConfig()
	config.State, config.Graph, config.Stopping = st, view.NewGraph(st), serving.Done()
	server, err := New(config)
	if err != nil {
		return err
	}
	pb.RegisterInboundServerPoliciesServer(serving, server)
	c.fill()
	listener, err := stdnet.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = config.Graph.Run(ctx) })
	running.Go(func() { _ = serving.Serve(ctx, listener) })
	defer func() { cancel(); running.Wait() }()
	fmt.Println(listener.Addr())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		u := usage{At: time.Now().UnixNano()}
		c.command(strings.Fields(in.Text()))
		samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		runtimemetrics.Read(samples)
		u.HeapLive, u.Stacks, u.Views = int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64()), server.placements.Held()
		line, err := json.Marshal(u)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return in.Err()
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

// loadStream counts what comes, undecoded.
type loadStream struct{ msgs, last atomic.Int64 }

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
func (r *loadRun) open() {
	r.tb.Helper()
	for i := range r.shape.Streams {
		s := &loadStream{}
		r.all = append(r.all, s)
		request, err := grpcserver.Encode(&pb.PortSpec{Workload: fmt.Sprintf("load:p%d", i), Port: 8080})
		if err != nil {
			r.tb.Fatal(err)
		}
		r.closed.Go(func() { s.run(r.conns[i%len(r.conns)], request.Bytes()) })
	}
	soon(r.tb, "every stream is filled", func() bool {
		return !slices.ContainsFunc(r.all, func(s *loadStream) bool { return s.msgs.Load() == 0 })
	})
}

func (s *loadStream) run(conn *grpc.ClientConn, request []byte) {
	client, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, pb.InboundServerPolicies_WatchPort_FullMethodName)
	if err != nil || client.SendMsg(&request) != nil || client.CloseSend() != nil {
		return
	}
	var message []byte
	for client.RecvMsg(&message) == nil {
		s.last.Store(time.Now().UnixNano())
		s.msgs.Add(1)
	}
}

// change gives a command that affects some streams, and returns how long it
// took until the last of them knew. The others must hear nothing.
func (r *loadRun) change(command string, affected func(stream int) bool) time.Duration {
	r.tb.Helper()
	before := make([]int64, len(r.all))
	for i, s := range r.all {
		before[i] = s.msgs.Load()
	}
	at := r.tell(command).At
	var last int64
	soon(r.tb, "every affected stream knows", func() bool {
		last = 0
		for i, s := range r.all {
			if !affected(i) {
				continue
			}
			if s.msgs.Load() == before[i] {
				return false
			}
			last = max(last, s.last.Load())
		}
		return true
	})
	for i, s := range r.all {
		if got := s.msgs.Load() - before[i]; !affected(i) && got != 0 {
			r.tb.Fatalf("stream %d is not affected by %q but had %d messages", i, command, got)
		}
	}
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

// BenchmarkStreams measures what streams cost the server, and how long the
// change of a policy takes to reach the last stream that it affects: of one
// Server, and of all.
func BenchmarkStreams(b *testing.B) {
	for _, row := range []struct {
		name  string
		shape loadShape
	}{
		{"one Server and probe", loadShape{Servers: 1, Pods: 5000, Streams: 2000, Conns: 20}},
		{"1000 Servers", loadShape{Servers: 1000, Pods: 5000, Streams: 2000, Conns: 20}},
		{"1000 Servers, all answers differ", loadShape{Servers: 1000, Pods: 5000, Streams: 2000, Conns: 20, Distinct: true}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				r := startLoad(b, row.shape)
				before := r.tell("gc")
				r.open()
				opened := r.tell("gc")
				streams := float64(row.shape.Streams)
				b.ReportMetric(float64(opened.HeapLive-before.HeapLive)/1024/streams, "live-KiB/stream")
				b.ReportMetric(float64(opened.Stacks-before.Stacks)/1024/streams, "stack-KiB/stream")
				var one, all []time.Duration
				for n := range 40 {
					server := n / 2 * 7 % row.shape.Servers
					one = append(one, r.change(fmt.Sprintf("policy %d %d", server, (n+1)%2), func(i int) bool { return row.shape.server(i) == server }))
				}
				for n := range 20 {
					all = append(all, r.change(fmt.Sprintf("namespace %d", n%2), func(int) bool { return true }))
				}
				slices.Sort(one)
				slices.Sort(all)
				b.ReportMetric(float64(one[len(one)/2].Microseconds())/1000, "one-p50-ms")
				b.ReportMetric(float64(one[len(one)*99/100].Microseconds())/1000, "one-p99-ms")
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "all-p50-ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// What a stream costs, and that it is given back.
func TestStreamMemory(t *testing.T) {
	for _, row := range []struct {
		name   string
		shape  loadShape
		budget int64
	}{
		{"equal answers", loadShape{Servers: 1, Pods: 500, Streams: 500, Conns: 5}, 5 << 10},
		{"every answer its own", loadShape{Servers: 100, Pods: 500, Streams: 500, Conns: 5, Distinct: true}, 8 << 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := startLoad(t, row.shape)
			before := r.tell("gc")
			r.open()
			opened := r.tell("gc")
			cost := (opened.HeapLive - before.HeapLive) / int64(row.shape.Streams)
			t.Logf("a stream holds %d bytes", cost)
			if cost > row.budget {
				t.Errorf("a stream holds %d bytes, more than %d", cost, row.budget)
			}
			r.change("policy 0 1", func(i int) bool { return row.shape.server(i) == 0 })
			for _, c := range r.conns {
				c.Close()
			}
			soon(t, "all streams are gone", func() bool { return r.tell("stat").Views == 0 })
			if kept := r.tell("gc").HeapLive - before.HeapLive; kept > 1<<20 {
				t.Errorf("%d KiB are kept", kept/1024)
			}
		})
	}
}
