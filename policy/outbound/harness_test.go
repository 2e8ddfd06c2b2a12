package outbound

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

// cluster is a State that tests write to, with a Server over it. Inside a
// synctest bubble its streams are settled when settle returns.
type cluster struct {
	t        testing.TB
	state    *state.State
	graph    *view.Graph
	server   *Server
	registry *prometheus.Registry
	stopping chan struct{}
	objects  *objects.Store
}

func defaultConfig() Config { return Config{Settings: linkerd.DefaultSettings()} }

func newCluster(t testing.TB, config Config) *cluster {
	t.Helper()
	table, err := problems.New(problems.Config{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true), Problems: table})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		t: t, state: st, graph: view.NewGraph(st), registry: prometheus.NewRegistry(),
		stopping: make(chan struct{}), objects: objects.NewStore(t, st),
	}
	config.State, config.Graph, config.Stopping, config.Registerer = st, c.graph, c.stopping, c.registry
	config.Routes = gateway.New(st)
	if c.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// bubble runs a test in a synctest bubble, over an empty cluster. Streams that
// the test leaves open are ended.
func bubble(t *testing.T, config Config, run func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, config)
		defer func() {
			close(c.stopping)
			synctest.Wait()
			if held := c.server.views.held(); held != 0 {
				t.Errorf("%d views are held after the last stream", held)
			}
			if size := c.graph.Size(); size != 0 {
				t.Errorf("%d topics are watched after the last stream", size)
			}
		}()
		run(t, c)
	})
}

// scenario is a bubble with the numbers of what it shows for a name.
func scenario(t *testing.T, name string, config Config, run func(t *testing.T, c *cluster)) {
	t.Helper()
	rulebook.Run(t, name, func(t *testing.T) { bubble(t, config, run) })
}

// apply stores the objects of YAML streams and settles.
func (c *cluster) apply(docs ...string) {
	c.t.Helper()
	for _, doc := range objects.Documents(docs...) {
		c.put(doc)
	}
	c.settle()
}

// put stores one object without settling.
func (c *cluster) put(doc string) {
	c.t.Helper()
	c.objects.Put(doc)
}

// remove forgets objects by their names, see objects.Name, and settles.
func (c *cluster) remove(names ...string) {
	c.t.Helper()
	c.objects.Remove(names...)
	c.settle()
}

// settle brings views and streams up to date.
func (c *cluster) settle() {
	c.graph.Flush()
	synctest.Wait()
}

// spec is a request from namespace to "ip:port", or else to an authority.
func spec(namespace, to string) *pb.TrafficSpec {
	out := &pb.TrafficSpec{SourceWorkload: namespace + ":client"}
	if ap, err := netip.ParseAddrPort(to); err == nil {
		out.Target = &pb.TrafficSpec_Addr{Addr: net.NewTcpAddress(ap)}
		return out
	}
	out.Target = &pb.TrafficSpec_Authority{Authority: to}
	return out
}

// ask asks once; an error is its code and message.
func (c *cluster) ask(request *pb.TrafficSpec) string {
	answer, err := c.server.Get(context.Background(), request)
	if err != nil {
		return status.Convert(err).Code().String() + " " + status.Convert(err).Message()
	}
	return summary(answer)
}

func (c *cluster) get(namespace, to string) string { return c.ask(spec(namespace, to)) }

// follower is a client of Watch.
type follower struct {
	*streams.Stream[*pb.OutboundPolicy]
	t testing.TB
}

// watch opens a stream and settles.
func (c *cluster) watch(namespace, to string) *follower { return c.open(spec(namespace, to)) }

func (c *cluster) open(request *pb.TrafficSpec) *follower {
	s := &follower{t: c.t, Stream: streams.Open(c.t, func(s *streams.Stream[*pb.OutboundPolicy]) error { return c.server.Watch(request, s) })}
	c.settle()
	return s
}

// want compares the messages since the last want, by their summaries.
func (s *follower) want(summaries ...string) {
	s.t.Helper()
	var got, want []string
	for _, m := range s.Take() {
		got = append(got, summary(m))
	}
	for _, text := range summaries {
		want = append(want, unindent(text))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// unindent takes from each line what the first has before its text.
func unindent(text string) string {
	text = strings.Trim(text, "\n\t ")
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}

func wantText(t testing.TB, want, got string) {
	t.Helper()
	if diff := cmp.Diff(unindent(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
