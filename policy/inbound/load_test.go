package inbound

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
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
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/test/load"
)

func TestMain(m *testing.M) { os.Exit(load.Main(m, serveLoad)) }

// loadShape is the size of a load test. All objects are in one namespace. Pod
// p is selected by Server p modulo Servers, which has one policy of its own.
type loadShape struct {
	Servers, Pods, Streams int
	// Distinct gives each Pod a probe of its own, and so each port an answer
	// of its own.
	Distinct bool
}

// server is the number of the Server that owns the port of stream i.
func (s loadShape) server(i int) int { return i % s.Servers }

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
	case "policy":
		server, _ := strconv.Atoi(words[1])
		c.policy(server, words[2] == "1")
	case "namespace":
		c.target("all", apis.LocalTargetRef{Kind: "Namespace", Name: "load"}, words[1] == "1")
	}
}

// serveLoad is the server's process.
func serveLoad(shape loadShape) error {
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
	config := defaultConfig()
	config.State, config.Graph, config.Stopping = st, view.NewGraph(st), serving.Done()
	config.Routes = gateway.New(st)
	server, err := New(config)
	if err != nil {
		return err
	}
	pb.RegisterInboundServerPoliciesServer(serving, server)
	c.fill()
	addr, stop, err := load.Listen(serving, config.Graph)
	if err != nil {
		return err
	}
	defer stop()
	return load.Answer(addr, c.command, func(u load.Usage) any {
		u.Views = server.placements.Held()
		return u
	})
}

// openLoad opens the streams of a shape; stream i is about Pod i.
func openLoad(r *load.Run, shape loadShape) {
	r.Open(shape.Streams, pb.InboundServerPolicies_WatchPort_FullMethodName, func(i int) proto.Message {
		return &pb.PortSpec{Workload: fmt.Sprintf("load:p%d", i), Port: 8080}
	})
}

// BenchmarkStreams measures what streams cost the server, and how long the
// change of a policy takes to reach the last stream that it affects: of one
// Server, and of all.
func BenchmarkStreams(b *testing.B) {
	for _, row := range []struct {
		name  string
		shape loadShape
	}{
		{"one Server and probe", loadShape{Servers: 1, Pods: 5000, Streams: 2000}},
		{"1000 Servers", loadShape{Servers: 1000, Pods: 5000, Streams: 2000}},
		{"1000 Servers, all answers differ", loadShape{Servers: 1000, Pods: 5000, Streams: 2000, Distinct: true}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				r := load.Start(b, row.shape, 20)
				before := r.Tell("gc")
				openLoad(r, row.shape)
				load.ReportMemory(b, before, r.Tell("gc"), row.shape.Streams)
				var one, all []time.Duration
				for n := range 40 {
					server := n / 2 * 7 % row.shape.Servers
					one = append(one, r.Change(fmt.Sprintf("policy %d %d", server, (n+1)%2), func(i int) bool { return row.shape.server(i) == server }))
				}
				for n := range 20 {
					all = append(all, r.Change(fmt.Sprintf("namespace %d", n%2), func(int) bool { return true }))
				}
				b.ReportMetric(load.Percentile(one, 50), "one-p50-ms")
				b.ReportMetric(load.Percentile(one, 99), "one-p99-ms")
				b.ReportMetric(load.Percentile(all, 50), "all-p50-ms")
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
		{"equal answers", loadShape{Servers: 1, Pods: 500, Streams: 500}, 5 << 10},
		{"every answer its own", loadShape{Servers: 100, Pods: 500, Streams: 500, Distinct: true}, 8 << 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := load.Start(t, row.shape, 5)
			before := r.Tell("gc")
			openLoad(r, row.shape)
			opened := r.Tell("gc")
			cost := (opened.HeapLive - before.HeapLive) / int64(row.shape.Streams)
			t.Logf("a stream holds %d bytes", cost)
			if cost > row.budget {
				t.Errorf("a stream holds %d bytes, more than %d", cost, row.budget)
			}
			r.Change("policy 0 1", func(i int) bool { return row.shape.server(i) == 0 })
			r.Close()
			r.WaitUntilIdle()
			// Pools and maps keep some; streams that stay would be nearly all of it.
			kept, held := r.Tell("gc").HeapLive-before.HeapLive, opened.HeapLive-before.HeapLive
			t.Logf("%d KiB of %d are kept", kept/1024, held/1024)
			if kept > held*2/3 {
				t.Errorf("%d KiB of %d are kept", kept/1024, held/1024)
			}
		})
	}
}
