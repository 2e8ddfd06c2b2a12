package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
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
	return newClusterOver(t, st, view.NewGraph(st), config)
}

func newClusterOver(t testing.TB, st *state.State, graph *view.Graph, config Config) *cluster {
	t.Helper()
	c := &cluster{
		t: t, state: st, graph: graph, registry: prometheus.NewRegistry(), log: &syncBuffer{},
		stopping: make(chan struct{}), born: map[string]metav1.Time{},
	}
	config.State, config.Graph, config.Stopping, config.Registerer = st, c.graph, c.stopping, c.registry
	config.Log = slog.New(slog.NewTextHandler(c.log, nil))
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
	text := asJSON(c.t, doc)
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &meta); err != nil {
		c.t.Fatalf("%v in:\n%s", err, doc)
	}
	switch meta.Kind {
	case "Pod":
		putAs(c, state.Pods, text, &corev1.Pod{})
	case "ExternalWorkload":
		putAs(c, state.ExternalWorkloads, text, &workloadv1beta1.ExternalWorkload{})
	case "Server":
		putAs(c, state.Servers, text, &policyv1beta3.Server{})
	case "ServerAuthorization":
		putAs(c, state.ServerAuthorizations, text, &policyv1beta1.ServerAuthorization{})
	case "AuthorizationPolicy":
		putAs(c, state.AuthorizationPolicies, text, &policyv1alpha1.AuthorizationPolicy{})
	case "MeshTLSAuthentication":
		putAs(c, state.MeshTLSAuthentications, text, &policyv1alpha1.MeshTLSAuthentication{})
	case "NetworkAuthentication":
		putAs(c, state.NetworkAuthentications, text, &policyv1alpha1.NetworkAuthentication{})
	case "HTTPLocalRateLimitPolicy":
		putAs(c, state.HTTPLocalRateLimitPolicies, text, &policyv1alpha1.HTTPLocalRateLimitPolicy{})
	case "HTTPRoute":
		if strings.HasPrefix(meta.APIVersion, "policy") {
			putAs(c, state.PolicyHTTPRoutes, text, &policyv1beta3.HTTPRoute{})
		} else {
			putAs(c, state.HTTPRoutes, text, &gatewayv1.HTTPRoute{})
		}
	case "GRPCRoute":
		putAs(c, state.GRPCRoutes, text, &gatewayv1.GRPCRoute{})
	default:
		c.t.Fatalf("kind %q is not known to the tests", meta.Kind)
	}
}

// asJSON converts YAML. What is JSON already is left alone, which is quicker.
func asJSON(t testing.TB, doc string) []byte {
	t.Helper()
	if json.Valid([]byte(doc)) {
		return []byte(doc)
	}
	text, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	return text
}

func putAs[T state.Object](c *cluster, kind *state.Kind[T], text []byte, obj T) {
	c.t.Helper()
	if err := json.Unmarshal(text, obj); err != nil {
		c.t.Fatalf("%v in:\n%s", err, text)
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
	s := c.open(token, port)
	c.settle()
	return s
}

// open opens a stream.
func (c *cluster) open(token string, port uint32) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{t: c.t, ctx: ctx, cancel: cancel}
	go func() {
		err := c.server.WatchPort(&pb.PortSpec{Workload: token, Port: port}, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err, s.ended = err, true
	}()
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
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("waited in vain until %s", what)
	}
}
