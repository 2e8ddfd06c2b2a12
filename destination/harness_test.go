package destination

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
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
	graphs   []*view.Graph
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
	c := &cluster{t: t, state: st, graph: view.NewGraph(st), stopping: make(chan struct{}), born: map[string]metav1.Time{}}
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
	obj.SetResourceVersion(fmt.Sprint(c.version))
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

// stream is a client of one call.
type stream[M any] struct {
	grpc.ServerStream
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	decode func([]byte) (M, error)

	mu       sync.Mutex
	messages []M
	err      error
	ended    bool
}

func (s *stream[M]) Context() context.Context     { return s.ctx }
func (s *stream[M]) SetHeader(metadata.MD) error  { return nil }
func (s *stream[M]) SendHeader(metadata.MD) error { return nil }
func (s *stream[M]) SetTrailer(metadata.MD)       {}
func (s *stream[M]) RecvMsg(any) error            { return nil }
func (s *stream[M]) Send(m M) error               { return s.SendMsg(m) }
func (s *stream[M]) end(err error)                { s.mu.Lock(); s.err, s.ended = err, true; s.mu.Unlock() }
func (s *stream[M]) status() (*status.Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.Convert(s.err), s.ended
}

func (s *stream[M]) SendMsg(m any) error {
	var data []byte
	switch m := m.(type) {
	case *grpcserver.Encoded:
		data = m.Bytes()
	case proto.Message:
		var err error
		if data, err = proto.Marshal(m); err != nil {
			return err
		}
	}
	decoded, err := s.decode(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, decoded)
	return s.ctx.Err()
}

// take returns what was received since the last call.
func (s *stream[M]) take() []M {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.messages
	s.messages = nil
	return taken
}

// open starts a call. It ends with the test, if not before.
func open[M any](c *cluster, decode func([]byte) (M, error), call func(*stream[M]) error) *stream[M] {
	s := &stream[M]{t: c.t, decode: decode}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.end(call(s))
	}()
	c.t.Cleanup(func() { s.cancel(); <-done })
	synctest.Wait()
	return s
}

// getStream is a client of Get.
type getStream struct {
	*stream[*pb.Update]
	path, token string
	// held is what a client holds after the messages it has taken.
	held map[string]string
}

// get calls Get; the token is a node's name, or all of a context token if it
// starts with a brace.
func (c *cluster) get(path string, token ...string) *getStream {
	c.t.Helper()
	request := &pb.GetDestination{Path: path}
	if len(token) > 0 {
		request.ContextToken = token[0]
		if !strings.HasPrefix(token[0], "{") {
			request.ContextToken = `{"nodeName":"` + token[0] + `"}`
		}
	}
	decode := func(data []byte) (*pb.Update, error) {
		u := &pb.Update{}
		return u, proto.Unmarshal(data, u)
	}
	s := open(c, decode, func(s *stream[*pb.Update]) error { return c.server.Get(request, s) })
	return &getStream{stream: s, held: map[string]string{}}
}

// want compares the messages since the last want, each written as by brief;
// none means silence.
func (s *getStream) want(messages ...string) {
	s.t.Helper()
	got := []string{}
	taken := s.take()
	for _, u := range taken {
		got = append(got, brief(u))
	}
	s.apply(taken)
	if diff := cmp.Diff(append([]string{}, messages...), got); diff != "" {
		s.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// wantStatus compares how the call ended.
func (s *getStream) wantStatus(code codes.Code, message string) {
	s.t.Helper()
	got, ended := s.status()
	if !ended {
		s.t.Errorf("the call has not ended, want %v %q", code, message)
	} else if got.Code() != code || got.Message() != message {
		s.t.Errorf("status %v %q, want %v %q", got.Code(), got.Message(), code, message)
	}
}

func (s *getStream) wantOpen() {
	s.t.Helper()
	if got, ended := s.status(); ended {
		s.t.Errorf("the call has ended: %v", got)
	}
}

// one returns the only address of the only message, an Add, since the last want.
func (s *getStream) one() *pb.WeightedAddr {
	s.t.Helper()
	taken := s.take()
	if len(taken) != 1 || len(taken[0].GetAdd().GetAddrs()) != 1 {
		s.t.Fatalf("want one address, got %v", taken)
	}
	return taken[0].GetAdd().Addrs[0]
}

// hold applies what was received since the last call to what the client holds.
func (s *getStream) hold() map[string]string {
	s.apply(s.take())
	return maps.Clone(s.held)
}

func (s *getStream) apply(updates []*pb.Update) {
	for _, u := range updates {
		for _, w := range u.GetAdd().GetAddrs() {
			s.held[addrText(w.Addr)] = fmt.Sprint(labelText(w.MetricLabels), w.Weight, w.TlsIdentity, w.ProtocolHint, w.AuthorityOverride, w.Http2, labelText(u.GetAdd().MetricLabels))
		}
		for _, a := range u.GetRemove().GetAddrs() {
			delete(s.held, addrText(a))
		}
	}
}

// brief is "A" or "R" and the sorted addresses.
func brief(u *pb.Update) string {
	var addrs []string
	kind := "?"
	switch {
	case u.GetAdd() != nil:
		kind = "A"
		for _, w := range u.GetAdd().Addrs {
			addrs = append(addrs, addrText(w.Addr))
		}
	case u.GetRemove() != nil:
		kind = "R"
		for _, a := range u.GetRemove().Addrs {
			addrs = append(addrs, addrText(a))
		}
	}
	slices.Sort(addrs)
	return strings.TrimSpace(kind + " " + strings.Join(addrs, " "))
}

func addrText(a *net.TcpAddress) string { return addrPort(a).String() }

func addrPort(a *net.TcpAddress) netip.AddrPort {
	var ip netip.Addr
	switch v := a.Ip.Ip.(type) {
	case *net.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte{byte(v.Ipv4 >> 24), byte(v.Ipv4 >> 16), byte(v.Ipv4 >> 8), byte(v.Ipv4)})
	case *net.IPAddress_Ipv6:
		var b [16]byte
		for i := range 8 {
			b[i], b[8+i] = byte(v.Ipv6.First>>(56-8*i)), byte(v.Ipv6.Last>>(56-8*i))
		}
		ip = netip.AddrFrom16(b)
	}
	return netip.AddrPortFrom(ip, uint16(a.Port))
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, " ")
}

// bubble runs a test with a cluster in a synctest bubble.
func bubble(t *testing.T, config Config, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCluster(t, config)) })
}

// Objects, as YAML.

// fields replaces "{}" pairs: name of a field, then its value.
func serviceYAML(name string, ports string, more ...string) string {
	return "kind: Service\nmetadata: {namespace: ns, name: " + name + "}\nspec:\n  ports: [" + ports + "]\n" + strings.Join(more, "\n")
}

// podYAML is a running, meshed Pod.
func podYAML(name, ip string, edits ...func(*corev1.Pod)) string {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web", linkerd.ControlPlaneNSLabel: "linkerd"}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8989}}},
			proxyYAML(),
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func proxyYAML() corev1.Container {
	return corev1.Container{Name: linkerd.ProxyContainerName, Env: []corev1.EnvVar{
		{Name: linkerd.ProxyInboundAddrEnv, Value: "0.0.0.0:4143"},
		{Name: linkerd.ProxyAdminAddrEnv, Value: "0.0.0.0:4191"},
		{Name: linkerd.ProxyControlAddrEnv, Value: "0.0.0.0:4190"},
	}}
}

func unmeshed(pod *corev1.Pod) {
	delete(pod.Labels, linkerd.ControlPlaneNSLabel)
	pod.Spec.Containers = pod.Spec.Containers[:1]
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[key] = value }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func onNode(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name}} }
}

// sliceYAML is a slice of Service name1 with one unnamed port. An endpoint is
// "ip", "ip pod", "ip ew:workload" and then flow fields.
func sliceYAML(name string, port int, endpoints ...string) string {
	return sliceOf("name1", name, "IPv4", fmt.Sprintf("[{name: '', port: %d}]", port), endpoints...)
}

func slice6YAML(name string, port int, endpoints ...string) string {
	return sliceOf("name1", name, "IPv6", fmt.Sprintf("[{name: '', port: %d}]", port), endpoints...)
}

func sliceOf(service, name, family, ports string, endpoints ...string) string {
	text := "kind: EndpointSlice\nmetadata: {namespace: ns, name: " + name + ", labels: {kubernetes.io/service-name: " + service + "}}\n" +
		"addressType: " + family + "\nports: " + ports + "\nendpoints:\n"
	if len(endpoints) == 0 {
		return strings.Replace(text, "endpoints:\n", "endpoints: []\n", 1)
	}
	for _, e := range endpoints {
		text += "- {" + endpointYAML(e) + "}\n"
	}
	return text
}

func endpointYAML(e string) string {
	text, more, hasMore := strings.Cut(e, ", ")
	words := strings.Fields(text)
	fields := `addresses: ["` + words[0] + `"]`
	if len(words) > 1 {
		kind, name := "Pod", words[1]
		if workload, ok := strings.CutPrefix(name, "ew:"); ok {
			kind, name = "ExternalWorkload", workload
		}
		fields += ", targetRef: {kind: " + kind + ", namespace: ns, name: " + name + "}"
	}
	if hasMore {
		fields += ", " + more
	}
	return fields
}

func hint(zone string) string { return "hints: {forZones: [{name: " + zone + "}]}" }

func nodeYAML(name, zone string) string {
	if zone == "" {
		return "kind: Node\nmetadata: {name: " + name + "}\n"
	}
	return "kind: Node\nmetadata: {name: " + name + ", labels: {topology.kubernetes.io/zone: " + zone + "}}\n"
}

func serverYAML(name, selector, port, protocol string) string {
	return "kind: Server\nmetadata: {namespace: ns, name: " + name + "}\nspec: {podSelector: " + selector + ", port: " + port + ", proxyProtocol: " + protocol + "}\n"
}

func workloadYAML(name, ip, more string) string {
	return "kind: ExternalWorkload\nmetadata: {namespace: ns, name: " + name + ", labels: {app: vm}" + more + "}\n" +
		"spec: {meshTLS: {identity: 'spiffe://root/" + name + "', serverName: " + name + ".local}, ports: [{name: http, port: 8989}], workloadIPs: [{ip: " + ip + "}]}\n"
}

// base are the objects that most rules start from (D section 6).
func (c *cluster) base() {
	c.t.Helper()
	c.apply(
		serviceYAML("name1", "{port: 8989}")+"  clusterIP: 10.1.0.1\n",
		podYAML("name1-1", "10.0.0.12"),
		sliceYAML("n1-v4", 8989, "10.0.0.12 name1-1"),
	)
}

const name1 = "name1.ns.svc.cluster.local:8989"

// soon waits for a condition in real time.
func soon(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// all is what the client holds, as text.
func (s *getStream) all() string {
	var lines []string
	for addr, what := range s.hold() {
		lines = append(lines, addr+" "+what)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
