package inbound

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
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
	return newClusterOver(t, st, view.NewGraph(st), config)
}

func newClusterOver(t testing.TB, st *state.State, graph *view.Graph, config Config) *cluster {
	t.Helper()
	c := &cluster{
		t: t, state: st, graph: graph, registry: prometheus.NewRegistry(),
		stopping: make(chan struct{}), objects: objects.NewStore(t, st),
	}
	config.State, config.Graph, config.Stopping, config.Registerer = st, c.graph, c.stopping, c.registry
	config.Routes = gateway.New(st)
	var err error
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
			if held := c.server.placements.Held() + c.server.answers.Held(); held != 0 {
				t.Errorf("%d views are held after the last stream", held)
			}
		}()
		run(t, c)
	})
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

// get asks once, and returns the summary of the answer or of the error.
func (c *cluster) get(token string, port uint32) string {
	answer, err := c.server.GetPort(context.Background(), &pb.PortSpec{Workload: token, Port: port})
	if err != nil {
		return status.Convert(err).Code().String() + " " + status.Convert(err).Message()
	}
	return summary(answer)
}

// follower is a client of WatchPort.
type follower struct {
	*streams.Stream[*pb.Server]
	t testing.TB
}

// watch opens a stream and settles.
func (c *cluster) watch(token string, port uint32) *follower {
	s := c.open(token, port)
	c.settle()
	return s
}

// open opens a stream.
func (c *cluster) open(token string, port uint32) *follower {
	return &follower{t: c.t, Stream: streams.Open(c.t, func(s *streams.Stream[*pb.Server]) error {
		return c.server.WatchPort(&pb.PortSpec{Workload: token, Port: port}, s)
	})}
}

// want compares the summaries of the messages since the last want.
func (s *follower) want(summaries ...string) {
	s.t.Helper()
	var got []string
	for _, m := range s.Take() {
		got = append(got, summary(m))
	}
	var want []string
	for _, text := range summaries {
		want = append(want, strings.TrimSpace(text))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// quiet fails if there was a message since the last want.
func (s *follower) quiet() { s.t.Helper(); s.want() }

// soon waits for a condition in real time.
func soon(t testing.TB, what string, condition func() bool) {
	t.Helper()
	eventually.Holds(t, what, condition, nil)
}
