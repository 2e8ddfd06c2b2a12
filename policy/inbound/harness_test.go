package inbound

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// cluster is a State that tests write to, with a Server over it. Inside a
// synctest bubble its streams are settled when settle returns.
type cluster struct {
	t        testing.TB
	state    *state.State
	graph    *view.Graph
	server   *Server
	registry *prometheus.Registry
	log      *syncBuffer
	stopping chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	version int
	born    map[string]metav1.Time
}

func newCluster(t testing.TB, config Config) *cluster {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		t: t, state: st, graph: view.NewGraph(st), registry: prometheus.NewRegistry(), log: &syncBuffer{},
		stopping: make(chan struct{}), born: map[string]metav1.Time{},
	}
	config.State, config.Graph, config.Stopping, config.Registerer = st, c.graph, c.stopping, c.registry
	config.Log = slog.New(slog.NewTextHandler(c.log, nil))
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
			if held := c.server.views.ports.Held() + c.server.views.placements.Held() + c.server.views.answers.Held() + c.server.views.servers.Held(); held != 0 {
				t.Errorf("%d views are held after the last stream", held)
			}
		}()
		run(t, c)
	})
}

// apply stores the objects of YAML streams and settles.
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
	var meta metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
		c.t.Fatalf("%v in:\n%s", err, doc)
	}
	switch meta.Kind {
	case "Pod":
		putAs(c, state.Pods, doc, &corev1.Pod{})
	case "ExternalWorkload":
		putAs(c, state.ExternalWorkloads, doc, &workloadv1beta1.ExternalWorkload{})
	case "Server":
		putAs(c, state.Servers, doc, &policyv1beta3.Server{})
	case "ServerAuthorization":
		putAs(c, state.ServerAuthorizations, doc, &policyv1beta1.ServerAuthorization{})
	case "AuthorizationPolicy":
		putAs(c, state.AuthorizationPolicies, doc, &policyv1alpha1.AuthorizationPolicy{})
	case "MeshTLSAuthentication":
		putAs(c, state.MeshTLSAuthentications, doc, &policyv1alpha1.MeshTLSAuthentication{})
	case "NetworkAuthentication":
		putAs(c, state.NetworkAuthentications, doc, &policyv1alpha1.NetworkAuthentication{})
	case "HTTPLocalRateLimitPolicy":
		putAs(c, state.HTTPLocalRateLimitPolicies, doc, &policyv1alpha1.HTTPLocalRateLimitPolicy{})
	case "HTTPRoute":
		if strings.HasPrefix(meta.APIVersion, "policy") {
			putAs(c, state.PolicyHTTPRoutes, doc, &policyv1beta3.HTTPRoute{})
		} else {
			putAs(c, state.HTTPRoutes, doc, &gatewayv1.HTTPRoute{})
		}
	case "GRPCRoute":
		putAs(c, state.GRPCRoutes, doc, &gatewayv1.GRPCRoute{})
	default:
		c.t.Fatalf("kind %q is not known to the tests", meta.Kind)
	}
}

func putAs[T state.Object](c *cluster, kind *state.Kind[T], doc string, obj T) {
	c.t.Helper()
	if err := yaml.Unmarshal([]byte(doc), obj); err != nil {
		c.t.Fatalf("%v in:\n%s", err, doc)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	key := kind.Name + "/" + obj.GetNamespace() + "/" + obj.GetName()
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		c.born[key] = created
	} else if _, ok := c.born[key]; !ok {
		c.born[key] = metav1.Unix(int64(c.version), 0)
	}
	obj.SetCreationTimestamp(c.born[key])
	obj.SetUID(types.UID(fmt.Sprint(c.born[key].Unix())))
	obj.SetResourceVersion(fmt.Sprint(c.version))
	state.Put(c.state, kind, obj)
}

// remove forgets objects named "Kind/namespace/name" and settles. An HTTPRoute
// of the gateway group is a "GatewayHTTPRoute".
func (c *cluster) remove(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.forget(name)
	}
	c.settle()
}

// forget removes one object without settling.
func (c *cluster) forget(name string) {
	c.t.Helper()
	parts := strings.Split(name, "/")
	switch parts[0] {
	case "Pod":
		removeAs(c, state.Pods, parts)
	case "ExternalWorkload":
		removeAs(c, state.ExternalWorkloads, parts)
	case "Server":
		removeAs(c, state.Servers, parts)
	case "ServerAuthorization":
		removeAs(c, state.ServerAuthorizations, parts)
	case "AuthorizationPolicy":
		removeAs(c, state.AuthorizationPolicies, parts)
	case "MeshTLSAuthentication":
		removeAs(c, state.MeshTLSAuthentications, parts)
	case "NetworkAuthentication":
		removeAs(c, state.NetworkAuthentications, parts)
	case "HTTPLocalRateLimitPolicy":
		removeAs(c, state.HTTPLocalRateLimitPolicies, parts)
	case "HTTPRoute":
		removeAs(c, state.PolicyHTTPRoutes, parts)
	case "GatewayHTTPRoute":
		removeAs(c, state.HTTPRoutes, parts)
	case "GRPCRoute":
		removeAs(c, state.GRPCRoutes, parts)
	default:
		c.t.Fatalf("kind %q is not known to the tests", parts[0])
	}
}

func removeAs[T state.Object](c *cluster, kind *state.Kind[T], parts []string) {
	delete(c.born, kind.Name+"/"+parts[1]+"/"+parts[2])
	state.Remove(c.state, kind, parts[1], parts[2])
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

// stream is a client of WatchPort.
type stream struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	messages []*pb.Server
	err      error
	ended    bool
}

// watch opens a stream and settles.
func (c *cluster) watch(token string, port uint32) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{t: c.t, ctx: ctx, cancel: cancel}
	go func() {
		err := c.server.WatchPort(&pb.PortSpec{Workload: token, Port: port}, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err, s.ended = err, true
	}()
	c.settle()
	return s
}

func (s *stream) Context() context.Context     { return s.ctx }
func (s *stream) SetHeader(metadata.MD) error  { return nil }
func (s *stream) SendHeader(metadata.MD) error { return nil }
func (s *stream) SetTrailer(metadata.MD)       {}
func (s *stream) RecvMsg(any) error            { return nil }
func (s *stream) Send(m *pb.Server) error      { return s.SendMsg(m) }

func (s *stream) SendMsg(m any) error {
	message := &pb.Server{}
	if err := proto.Unmarshal(m.(*grpcserver.Encoded).Bytes(), message); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, message)
	return nil
}

// take returns the messages since the last take.
func (s *stream) take() []*pb.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages := s.messages
	s.messages = nil
	return messages
}

// end is the status that the stream has ended with, "" while it is open.
func (s *stream) end() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		return ""
	}
	return strings.TrimSpace(status.Convert(s.err).Code().String() + " " + status.Convert(s.err).Message())
}

// want compares the summaries of the messages since the last want.
func (s *stream) want(summaries ...string) {
	s.t.Helper()
	var got []string
	for _, m := range s.take() {
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
func (s *stream) quiet() { s.t.Helper(); s.want() }

// summary writes all of an answer as lines: the server with its protocol, then
// its authorizations, routes and limit.
func summary(m *pb.Server) string {
	var b strings.Builder
	protocol, routes, limit := "none", []string{}, (*pb.HttpLocalRateLimit)(nil)
	http := func(list []*pb.HttpRoute) {
		for _, r := range list {
			var rules []string
			for _, rule := range r.Rules {
				rules = append(rules, ruleText(rule.Matches, rule.Filters))
			}
			routes = append(routes, routeText(compact(r.Metadata), compactAll(r.Hosts), rules, r.Authorizations))
		}
	}
	switch p := m.GetProtocol().GetKind().(type) {
	case *pb.ProxyProtocol_Detect_:
		protocol, limit = "detect "+p.Detect.Timeout.AsDuration().String(), p.Detect.HttpLocalRateLimit
		http(p.Detect.HttpRoutes)
	case *pb.ProxyProtocol_Http1_:
		protocol, limit = "http1", p.Http1.LocalRateLimit
		http(p.Http1.Routes)
	case *pb.ProxyProtocol_Http2_:
		protocol, limit = "http2", p.Http2.LocalRateLimit
		http(p.Http2.Routes)
	case *pb.ProxyProtocol_Grpc_:
		protocol = "grpc"
		for _, r := range p.Grpc.Routes {
			var rules []string
			for _, rule := range r.Rules {
				rules = append(rules, ruleText(rule.Matches, rule.Filters))
			}
			routes = append(routes, routeText(compact(r.Metadata), compactAll(r.Hosts), rules, r.Authorizations))
		}
	case *pb.ProxyProtocol_Opaque_:
		protocol = "opaque"
	case *pb.ProxyProtocol_Tls_:
		protocol = "tls"
	}
	fmt.Fprintf(&b, "%s %s/%s %s\n", m.Labels["group"], m.Labels["kind"], m.Labels["name"], protocol)
	if len(m.Labels) != 3 || len(m.ServerIps) > 0 {
		fmt.Fprintf(&b, "unexpected: %v %v\n", m.Labels, m.ServerIps)
	}
	for _, a := range m.Authorizations {
		fmt.Fprintf(&b, "authz %s\n", authzText(a))
	}
	for _, r := range routes {
		b.WriteString(r)
	}
	if limit != nil {
		fmt.Fprintf(&b, "limit %s\n", compact(limit))
	}
	return strings.TrimSpace(b.String())
}

func ruleText[M, F proto.Message](matches []M, filters []F) string {
	text := compactAll(matches)
	if len(filters) > 0 {
		text += " filters " + compactAll(filters)
	}
	return text
}

func routeText(metadata, hosts string, rules []string, authorizations []*pb.Authz) string {
	text := "route " + metadata
	if hosts != "" {
		text += " hosts " + hosts
	}
	text += "\n"
	for _, r := range rules {
		text += "  rule " + r + "\n"
	}
	for _, a := range authorizations {
		text += "  authz " + authzText(a) + "\n"
	}
	return text
}

// authzText checks that labels and metadata agree, and that nothing is missing
// without which proxies refuse the whole policy (policy-inbound 11).
func authzText(a *pb.Authz) string {
	name := a.Labels["kind"] + "/" + a.Labels["name"]
	want := "default:" + a.Labels["name"]
	if a.Labels["kind"] != "default" {
		want = fmt.Sprintf("{group:%s kind:%s name:%s}", a.Labels["group"], a.Labels["kind"], a.Labels["name"])
		want = "resource:" + want
	}
	if got := compact(a.Metadata); got != want || len(a.Networks) == 0 || a.Authentication.GetPermit() == nil {
		return fmt.Sprintf("unsound: metadata %s, labels %v, %d networks, authentication %v", got, a.Labels, len(a.Networks), a.Authentication)
	}
	var networks []string
	for _, n := range a.Networks {
		text := networkText(n.Net)
		for _, e := range n.Except {
			text += " except " + networkText(e)
		}
		networks = append(networks, text)
	}
	text := strings.Join(networks, ", ")
	if text == "0.0.0.0/0, ::/0" {
		text = "all"
	}
	if text == "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16" {
		text = "cluster"
	}
	return name + " " + strings.ReplaceAll(compact(a.Authentication), ":{}", "") + " from " + text
}

func networkText(n *net.IPNetwork) string {
	return netip.PrefixFrom(addr(n.GetIp()), int(n.GetPrefixLen())).String()
}

func addr(ip *net.IPAddress) netip.Addr {
	if v6 := ip.GetIpv6(); v6 != nil {
		var b [16]byte
		for i := range 8 {
			b[i], b[8+i] = byte(v6.First>>(56-8*i)), byte(v6.Last>>(56-8*i))
		}
		return netip.AddrFrom16(b)
	}
	v4 := ip.GetIpv4()
	return netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)})
}

func compactAll[M proto.Message](list []M) string {
	var texts []string
	for _, m := range list {
		texts = append(texts, compact(m))
	}
	return strings.Join(texts, "; ")
}

// compact writes a message on one line, its fields in order, durations as text.
func compact(m proto.Message) string {
	if d, ok := m.(*durationpb.Duration); ok {
		return d.AsDuration().String()
	}
	return strings.TrimSuffix(strings.TrimPrefix(compactMessage(m.ProtoReflect()), "{"), "}")
}

func compactMessage(m protoreflect.Message) string {
	var fields []string
	descriptors := m.Descriptor().Fields()
	for i := range descriptors.Len() {
		field := descriptors.Get(i)
		if !m.Has(field) {
			continue
		}
		value := m.Get(field)
		var text string
		switch {
		case field.IsList():
			var items []string
			for j := range value.List().Len() {
				items = append(items, compactValue(field, value.List().Get(j)))
			}
			text = "[" + strings.Join(items, " ") + "]"
		default:
			text = compactValue(field, value)
		}
		fields = append(fields, string(field.Name())+":"+text)
	}
	return "{" + strings.Join(fields, " ") + "}"
}

func compactValue(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return compactMessage(value.Message())
	case protoreflect.EnumKind:
		return string(field.Enum().Values().ByNumber(value.Enum()).Name())
	case protoreflect.BytesKind:
		return string(value.Bytes())
	}
	return fmt.Sprint(value.Interface())
}

// syncBuffer is a buffer for logs.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// lines returns the log lines that contain all the texts.
func (s *syncBuffer) lines(texts ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, line := range strings.Split(s.b.String(), "\n") {
		if line != "" && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}

// soon waits for a condition in real time.
func soon(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
