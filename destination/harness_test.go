package destination

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
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
	version  int
	born     map[string]metav1.Time
	// versions has the newest resourceVersion of each object; those in given are used instead of new ones.
	versions, given map[string]string
	graphs          []*view.Graph
}

// testConfig is what the rules of the catalogue assume unless they say otherwise.
func testConfig() Config {
	config := DefaultConfig()
	config.DefaultOpaquePorts = "25,443,587,3306,5432,11211"
	config.OutboundTransportMode = TransportTransparent
	config.MeshedHTTP2ClientParams = ""
	config.EnableIPv6 = true
	return config
}

func newCluster(t testing.TB, config Config) *cluster {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(config.EnableEndpointSlices)})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, state: st, graph: view.NewGraph(st), stopping: make(chan struct{}), born: map[string]metav1.Time{}, versions: map[string]string{}}
	c.links = &fakeLinks{cluster: c, links: map[string]*Link{}, changed: map[string]chan struct{}{}}
	c.graphs = []*view.Graph{c.graph}
	config.State, config.Graph, config.Links, config.Stopping = st, c.graph, c.links, c.stopping
	if config.Log == nil {
		config.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
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

// apply stores the objects of a YAML stream and settles.
func (c *cluster) apply(docs ...string) {
	c.t.Helper()
	for _, text := range docs {
		for _, doc := range strings.Split(text, "\n---\n") {
			if strings.TrimSpace(doc) != "" {
				c.put(doc)
			}
		}
	}
	c.settle()
}

// put stores one object without settling.
func (c *cluster) put(doc string) {
	c.t.Helper()
	switch kind := kindOf(c.t, doc); kind {
	case "Service":
		putAs(c, state.Services, doc, &corev1.Service{})
	case "Pod":
		putAs(c, state.Pods, doc, &corev1.Pod{})
	case "EndpointSlice":
		putAs(c, state.EndpointSlices, doc, &discoveryv1.EndpointSlice{})
	case "Endpoints":
		//lint:ignore SA1019 Endpoints mode reads them
		putAs(c, state.Endpoints, doc, &corev1.Endpoints{})
	case "Node":
		putAs(c, state.Nodes, doc, &metav1.PartialObjectMetadata{})
	case "ReplicaSet":
		putAs(c, state.ReplicaSets, doc, &metav1.PartialObjectMetadata{})
	case "Job":
		putAs(c, state.Jobs, doc, &metav1.PartialObjectMetadata{})
	case "ExternalWorkload":
		putAs(c, state.ExternalWorkloads, doc, &workloadv1beta1.ExternalWorkload{})
	case "Server":
		putAs(c, state.Servers, doc, &policyv1beta3.Server{})
	case "ServiceProfile":
		putAs(c, state.ServiceProfiles, doc, &linkerdv1alpha2.ServiceProfile{})
	case "Secret":
		secret := decode(c.t, doc, &corev1.Secret{})
		c.link(secret.Labels[linkerd.ClusterNameLabel], secret.Annotations[linkerd.TrustDomainAnnotation], c.state)
	case "Deployment", "StatefulSet", "CronJob", "Namespace", "ServiceAccount":
		// Nothing reads them.
	default:
		c.t.Fatalf("kind %q is not known to the tests", kind)
	}
}

func kindOf(t testing.TB, doc string) string {
	t.Helper()
	return decode(t, doc, &metav1.PartialObjectMetadata{}).Kind
}

func decode[T any](t testing.TB, doc string, into *T) *T {
	t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	return into
}

func putAs[T state.Object](c *cluster, kind *state.Kind[T], doc string, into T) {
	c.t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		c.t.Fatalf("%v in:\n%s", err, doc)
	}
	putObject(c, kind, into)
}

// putObject gives an object what an API server does, and stores it.
func putObject[T state.Object](c *cluster, kind *state.Kind[T], obj T) {
	c.version++
	key := kind.Name + "/" + obj.GetNamespace() + "/" + obj.GetName()
	if _, ok := c.born[key]; !ok {
		c.born[key] = metav1.Unix(int64(c.version), 0)
	}
	obj.SetCreationTimestamp(c.born[key])
	obj.SetUID(types.UID(fmt.Sprint(c.born[key].Unix())))
	c.versions[key] = fmt.Sprint(c.version)
	if version, ok := c.given[key]; ok {
		c.versions[key] = version
	}
	obj.SetResourceVersion(c.versions[key])
	state.Put(c.state, kind, obj)
}

// remove forgets objects named "Kind/namespace/name" and settles.
func (c *cluster) remove(names ...string) {
	c.t.Helper()
	for _, name := range names {
		parts := strings.Split(name, "/")
		switch parts[0] {
		case "Service":
			removeAs(c, state.Services, parts)
		case "Pod":
			removeAs(c, state.Pods, parts)
		case "EndpointSlice":
			removeAs(c, state.EndpointSlices, parts)
		case "Endpoints":
			removeAs(c, state.Endpoints, parts)
		case "Node":
			removeAs(c, state.Nodes, parts)
		case "ReplicaSet":
			removeAs(c, state.ReplicaSets, parts)
		case "Job":
			removeAs(c, state.Jobs, parts)
		case "ExternalWorkload":
			removeAs(c, state.ExternalWorkloads, parts)
		case "Server":
			removeAs(c, state.Servers, parts)
		case "ServiceProfile":
			removeAs(c, state.ServiceProfiles, parts)
		default:
			c.t.Fatalf("kind %q is not known to the tests", parts[0])
		}
	}
	c.settle()
}

func removeAs[T state.Object](c *cluster, kind *state.Kind[T], parts []string) {
	delete(c.born, kind.Name+"/"+parts[1]+"/"+parts[2])
	state.Remove(c.state, kind, parts[1], parts[2])
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
