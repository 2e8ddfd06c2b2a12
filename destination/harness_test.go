package destination

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// cluster is a State that tests write to, with a Server over it. Inside a
// synctest bubble its streams are settled when settle returns.
type cluster struct {
	t     testing.TB
	state *state.State
	graph *view.Graph
	// links are the clusters that Secrets link; all of them share the state.
	links    *fakeLinks
	server   *Server
	stopping chan struct{}
	objects  *objects.Store
	graphs   []*view.Graph
}

// testConfig is what docs/rules assumes unless they say otherwise.
func testConfig() Config {
	config := defaultConfig()
	config.DefaultOpaquePorts = linkerd.MustParsePortList("25,443,587,3306,5432,11211")
	config.OutboundTransportMode = linkerd.TransportTransparent
	config.MeshedHTTP2ClientParams = ""
	config.EnableIPv6 = true
	return config
}

func defaultConfig() Config { return Config{Settings: linkerd.DefaultSettings()} }

func newCluster(t testing.TB, config Config) *cluster {
	t.Helper()
	if config.Log == nil {
		config.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(config.EnableEndpointSlices), Log: config.Log})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, state: st, graph: view.NewGraph(st), stopping: make(chan struct{}), objects: objects.NewStore(t, st)}
	c.links = &fakeLinks{cluster: c, links: map[string]*Link{}, changed: map[string]chan struct{}{}}
	c.graphs = []*view.Graph{c.graph}
	config.State, config.Graph, config.Links, config.Stopping = st, c.graph, c.links, c.stopping
	if c.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// fakeLinks links a cluster per Secret. Every cluster reads the same objects.
type fakeLinks struct {
	cluster *cluster
	mu      sync.Mutex
	links   map[string]*Link
	changed map[string]chan struct{}
}

func (l *fakeLinks) Lookup(name string) (*Link, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed[name] == nil {
		l.changed[name] = make(chan struct{})
	}
	return l.links[name], l.changed[name]
}

// set links or, with nil, unlinks a cluster.
func (l *fakeLinks) set(name string, link *Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links[name] = link
	if c := l.changed[name]; c != nil {
		close(c)
		delete(l.changed, name)
	}
}

// link links a cluster over st.
func (c *cluster) link(name, trustDomain string, st *state.State) {
	g := view.NewGraph(st)
	c.graphs = append(c.graphs, g)
	c.links.set(name, &Link{Cluster: name, TrustDomain: trustDomain, ClusterDomain: "cluster.local", State: st, Graph: g})
}

// apply stores the objects of YAML streams and settles.
func (c *cluster) apply(docs ...string) {
	c.t.Helper()
	for _, doc := range objects.Documents(docs...) {
		c.put(doc)
	}
	c.settle()
}

// put stores one object without settling. A Secret links a cluster.
func (c *cluster) put(doc string) {
	c.t.Helper()
	if secret := decode(c.t, doc, &corev1.Secret{}); secret.Kind == "Secret" {
		c.link(secret.Labels[linkerd.ClusterNameLabel], secret.Annotations[linkerd.TrustDomainAnnotation], c.state)
		return
	}
	c.objects.Put(doc)
}

func decode[T any](t testing.TB, doc string, into *T) *T {
	t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	return into
}

// remove forgets objects by their names, see objects.Name, and settles. A Secret
// "link-NAME" links the cluster of that name.
func (c *cluster) remove(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if strings.HasPrefix(name, "Secret/") {
			_, link, _ := strings.Cut(name, "/link-")
			c.links.set(link, nil)
		} else {
			c.objects.Remove(name)
		}
	}
	c.settle()
}

// settle brings views and streams up to date.
func (c *cluster) settle() {
	for _, g := range c.graphs {
		g.Flush()
	}
	synctest.Wait()
}

// bubble runs a test with a cluster in a synctest bubble.
func bubble(t *testing.T, config Config, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCluster(t, config)) })
}
