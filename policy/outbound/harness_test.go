package outbound

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

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy"
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
	version  int
	// born are the creation times of objects without one.
	born map[string]metav1.Time
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
	t.Run(name, func(t *testing.T) { bubble(t, config, run) })
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
	case "Service":
		putAs(c, state.Services, doc, &corev1.Service{})
	case "EgressNetwork":
		putAs(c, state.EgressNetworks, doc, &policyv1alpha1.EgressNetwork{})
	case "HTTPRoute":
		if strings.HasPrefix(meta.APIVersion, "policy") {
			putAs(c, state.PolicyHTTPRoutes, doc, &policyv1beta3.HTTPRoute{})
		} else {
			putAs(c, state.HTTPRoutes, doc, &gatewayv1.HTTPRoute{})
		}
	case "GRPCRoute":
		putAs(c, state.GRPCRoutes, doc, &gatewayv1.GRPCRoute{})
	case "TLSRoute":
		putAs(c, state.TLSRoutes, doc, &gatewayv1alpha2.TLSRoute{})
	case "TCPRoute":
		putAs(c, state.TCPRoutes, doc, &gatewayv1alpha2.TCPRoute{})
	default:
		c.t.Fatalf("kind %q is not known to the tests", meta.Kind)
	}
}

func putAs[T state.Object](c *cluster, kind *state.Kind[T], doc string, obj T) {
	c.t.Helper()
	if err := yaml.Unmarshal([]byte(doc), obj); err != nil {
		c.t.Fatalf("%v in:\n%s", err, doc)
	}
	if service, ok := any(obj).(*corev1.Service); ok && service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		// As the API server does.
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
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
		parts := strings.Split(name, "/")
		switch parts[0] {
		case "Service":
			removeAs(c, state.Services, parts)
		case "EgressNetwork":
			removeAs(c, state.EgressNetworks, parts)
		case "HTTPRoute":
			removeAs(c, state.PolicyHTTPRoutes, parts)
		case "GatewayHTTPRoute":
			removeAs(c, state.HTTPRoutes, parts)
		case "GRPCRoute":
			removeAs(c, state.GRPCRoutes, parts)
		case "TLSRoute":
			removeAs(c, state.TLSRoutes, parts)
		case "TCPRoute":
			removeAs(c, state.TCPRoutes, parts)
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
	c.graph.Flush()
	synctest.Wait()
}

// spec is a request from namespace to "ip:port", or else to an authority.
func spec(namespace, to string) *pb.TrafficSpec {
	out := &pb.TrafficSpec{SourceWorkload: namespace + ":client"}
	if ap, err := netip.ParseAddrPort(to); err == nil {
		out.Target = &pb.TrafficSpec_Addr{Addr: &net.TcpAddress{Ip: policy.Address(ap.Addr()), Port: uint32(ap.Port())}}
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

// stream is a client of Watch.
type stream struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	messages []*pb.OutboundPolicy
	err      error
	ended    bool
}

// watch opens a stream and settles.
func (c *cluster) watch(namespace, to string) *stream { return c.open(spec(namespace, to)) }

func (c *cluster) open(request *pb.TrafficSpec) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{t: c.t, ctx: ctx, cancel: cancel}
	go func() {
		err := c.server.Watch(request, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err, s.ended = err, true
	}()
	c.settle()
	return s
}

func (s *stream) Context() context.Context        { return s.ctx }
func (s *stream) SetHeader(metadata.MD) error     { return nil }
func (s *stream) SendHeader(metadata.MD) error    { return nil }
func (s *stream) SetTrailer(metadata.MD)          {}
func (s *stream) RecvMsg(any) error               { return nil }
func (s *stream) Send(m *pb.OutboundPolicy) error { return s.SendMsg(m) }

func (s *stream) SendMsg(m any) error {
	message := &pb.OutboundPolicy{}
	if err := proto.Unmarshal(m.(*grpcserver.Encoded).Bytes(), message); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, message)
	return nil
}

// take returns the messages since the last take.
func (s *stream) take() []*pb.OutboundPolicy {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages := s.messages
	s.messages = nil
	return messages
}

// want compares the messages since the last want, by their summaries.
func (s *stream) want(summaries ...string) {
	s.t.Helper()
	var got, want []string
	for _, m := range s.take() {
		got = append(got, summary(m))
	}
	for _, text := range summaries {
		want = append(want, unindent(text))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// end returns how the stream ended, "" while it is open.
func (s *stream) end() string {
	err, ended := s.result()
	if !ended {
		return ""
	}
	return strings.TrimSpace(status.Convert(err).Code().String() + " " + status.Convert(err).Message())
}

// result is the error that the call has ended with, if it has.
func (s *stream) result() (error, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err, s.ended
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
