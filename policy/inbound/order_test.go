package inbound

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

// genObjects draws the objects of a small cluster: for each name one version,
// or none. Names are few so that objects refer to each other often.
func genObjects(tb testing.TB) *rapid.Generator[map[string]string] {
	return rapid.Custom(func(t *rapid.T) map[string]string {
		drawn := map[string]string{}
		add := func(chance int, key, doc string) {
			if rapid.IntRange(0, 9).Draw(t, key) < chance {
				drawn[key] = objects.JSON(tb, doc)
			}
		}
		pick := func(label string, options ...string) string { return rapid.SampledFrom(options).Draw(t, label) }
		for i, name := range []string{"a", "b", "c"} {
			born := fmt.Sprintf("creationTimestamp: '2026-01-01T00:00:0%dZ'", rapid.SampledFrom([]int{i, 5}).Draw(t, "born"))
			meta := "metadata: {namespace: ns, name: " + name + ", " + born + ", labels: {team: " + pick("team", "red", "blue") + ", linkerd.io/control-plane-ns: linkerd}"
			annotations := ", annotations: {config.linkerd.io/default-inbound-policy: " + pick("policy", "deny", "audit", "all-authenticated", "bogus") + ", config.linkerd.io/opaque-ports: '" + pick("opaque", "80", "81-90", "") + "'}}\n"
			add(9, "Pod/ns/"+name, "kind: Pod\n"+meta+annotations+"spec: {containers: [{name: c, ports: [{name: http, containerPort: 80}], livenessProbe: {httpGet: {path: /"+pick("path", "x", "z")+", port: http}}}]}")
			add(5, "ExternalWorkload/ns/"+name, "kind: ExternalWorkload\n"+meta+annotations+"spec: {meshTLS: {identity: a, serverName: a}, ports: [{name: http, port: "+pick("ewport", "80", "81")+"}]}")
			add(8, "Server/ns/"+name, "kind: Server\n"+meta+"}\nspec: {"+pick("kind", "podSelector", "podSelector", "externalWorkloadSelector")+": {matchLabels: {team: "+pick("selects", "red", "blue")+"}}, port: "+pick("port", "80", "81", "http")+
				", proxyProtocol: "+pick("protocol", "HTTP/1", "gRPC", "unknown", "opaque", "HTTP/2")+", accessPolicy: "+pick("access", "deny", "audit")+"}")
			add(5, "ServerAuthorization/ns/"+name, "kind: ServerAuthorization\n"+meta+"}\nspec: {server: {"+pick("by", "name: a", "name: b", "selector: {matchLabels: {team: red}}", "")+"}, client: {unauthenticated: true}}")
			add(7, "AuthorizationPolicy/ns/"+name, "kind: AuthorizationPolicy\n"+meta+"}\nspec: {targetRef: {"+pick("target", "group: policy.linkerd.io, kind: Server, name: a", "group: policy.linkerd.io, kind: Server, name: b", "kind: Namespace, name: ns",
				"group: policy.linkerd.io, kind: HTTPRoute, name: a", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: a", "group: gateway.networking.k8s.io, kind: GRPCRoute, name: a")+
				"}, requiredAuthenticationRefs: ["+pick("auth", "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: a}", "{group: policy.linkerd.io, kind: NetworkAuthentication, name: b, namespace: ns}", "", "{kind: ServiceAccount, name: x}")+"]}")
			add(5, "MeshTLSAuthentication/ns/"+name, "kind: MeshTLSAuthentication\n"+meta+"}\nspec: {identities: ["+pick("id", "a.b", "'*.c'")+"]}")
			add(5, "NetworkAuthentication/ns/"+name, "kind: NetworkAuthentication\n"+meta+"}\nspec: {networks: [{cidr: "+pick("cidr", "10.0.0.0/8", "'::/0'")+"}]}")
			spec := "spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: " + name + "}], rules: [{}]}\nstatus: {parents: [{controllerName: linkerd.io/policy-controller, parentRef: {kind: Server, name: " + pick("accepted", "a", "b", "c") + "}, conditions: [{type: Accepted, status: 'True'}]}]}"
			add(5, "HTTPRoute/ns/"+name, "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n"+meta+"}\n"+spec)
			add(5, "GatewayHTTPRoute/ns/"+name, "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n"+meta+"}\n"+spec)
			add(5, "GRPCRoute/ns/"+name, "kind: GRPCRoute\n"+meta+"}\n"+spec)
			add(5, "HTTPLocalRateLimitPolicy/ns/"+name, "kind: HTTPLocalRateLimitPolicy\n"+meta+"}\nspec: {targetRef: {group: policy.linkerd.io, kind: Server, name: "+pick("limits", "a", "b")+"}, total: {requestsPerSecond: 5}}\nstatus: {conditions: [{type: Accepted, status: '"+pick("is", "True", "False")+"'}]}")
		}
		return drawn
	})
}

// answers are what all ports of interest say.
func answers(c *cluster) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		for _, kind := range []string{"pod", "external_workload"} {
			for _, port := range []uint32{80, 81} {
				token := fmt.Sprintf(`{"ns":"ns",%q:%q}`, kind, name)
				out[fmt.Sprint(token, port)] = c.get(token, port)
			}
		}
	}
	return out
}

// Invariant: an answer depends on the objects that there are, not on the order
// in which they came, nor on what was there before.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		final := genObjects(t).Draw(rt, "final")
		earlier := genObjects(t).Draw(rt, "earlier")

		reference := newCluster(t, defaultConfig())
		for _, key := range slices.Sorted(maps.Keys(final)) {
			reference.put(final[key])
		}
		reference.graph.Flush()
		want := answers(reference)

		c := newCluster(t, defaultConfig())
		// Views that are held throughout, as streams hold them.
		var release []func()
		for _, name := range []string{"a", "b", "c"} {
			for _, external := range []bool{false, true} {
				for _, port := range []uint16{80, 81} {
					release = append(release, holdPort(c, external, name, port))
				}
			}
		}
		for _, key := range rapid.Permutation(slices.Sorted(maps.Keys(earlier))).Draw(rt, "first") {
			c.put(earlier[key])
			if rapid.Bool().Draw(rt, "flush") {
				c.graph.Flush()
			}
		}
		steps := slices.Sorted(maps.Keys(final))
		for _, key := range slices.Sorted(maps.Keys(earlier)) {
			if _, stays := final[key]; !stays {
				steps = append(steps, "-"+key)
			}
		}
		for _, key := range rapid.Permutation(steps).Draw(rt, "then") {
			if gone, ok := strings.CutPrefix(key, "-"); ok {
				c.objects.Remove(gone)
			} else {
				c.put(final[key])
			}
			if rapid.Bool().Draw(rt, "flush") {
				c.graph.Flush()
			}
		}
		c.graph.Flush()
		got := answers(c)
		for key, text := range want {
			if got[key] != text {
				rt.Fatalf("%s:\n%s\nwant\n%s", key, got[key], text)
			}
		}
		for _, r := range release {
			r()
		}
		if n := c.graph.Size(); n != 0 {
			rt.Fatalf("%d topics are depended on with no view held", n)
		}
	})
}

// Under -race: writers, streams that come and go, and a client that does not
// read. Every stream ends up with what a new call is told (B07, B08).
func TestStreamsWhileObjectsChange(t *testing.T) {
	c := newCluster(t, defaultConfig())
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return c.graph.Run(ctx) })
	const pods = 20
	for i := range pods {
		c.put(pod(fmt.Sprint("p", i), "}\nspec: {}"))
	}
	var clients []*lastStream
	for i := range pods {
		s := &lastStream{Stream: streams.New[*pb.Server](ctx)}
		clients = append(clients, s)
		running.Go(func() error { return c.watchUntilCancelled(fmt.Sprint("ns:p", i), s) })
	}
	var writers errgroup.Group
	for w := range 4 {
		writers.Go(func() error {
			for i := range 100 {
				name := fmt.Sprint("w", w)
				switch i % 4 {
				case 0:
					c.put(serverOn(name, "80", ", proxyProtocol: "+[]string{"opaque", "HTTP/1", "HTTP/2", "gRPC"}[(i/4)%4]))
				case 1:
					c.put(policyDoc(name, "group: policy.linkerd.io, kind: Server, name: "+name, ""))
				case 2:
					c.put(policyDoc(name, "kind: Namespace, name: ns", "{kind: ServiceAccount, name: x}"))
				case 3:
					state.Remove(c.state, state.Servers, "ns", name)
				}
				short, stop := context.WithCancel(ctx)
				stop()
				if err := c.watchUntilCancelled("ns:p0", &lastStream{Stream: streams.New[*pb.Server](short)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	c.put(serverOn("last", "80", ", proxyProtocol: TLS"))
	for i, s := range clients {
		soon(t, fmt.Sprintf("stream %d has the newest answer", i), func() bool { return s.last() == c.get(fmt.Sprint("ns:p", i), 80) })
	}
	cancel()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	if n := c.graph.Size(); n != 0 {
		t.Errorf("%d topics are depended on after the last stream", n)
	}
}

// watchUntilCancelled watches port 80, and returns an error if the stream ends
// otherwise than by its client.
func (c *cluster) watchUntilCancelled(token string, s *lastStream) error {
	err := c.server.WatchPort(&pb.PortSpec{Workload: token, Port: 80}, s)
	if status.Code(err) != codes.Canceled {
		return fmt.Errorf("the stream of %s ended with %v", token, err)
	}
	return nil
}

// lastStream is a client that keeps the summary of the newest message.
type lastStream struct {
	*streams.Stream[*pb.Server]
	mu     sync.Mutex
	newest string
}

func (s *lastStream) SendMsg(m any) error {
	if err := s.Stream.SendMsg(m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = summary(s.Take()[0])
	return nil
}

func (s *lastStream) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// holdPort holds the views of a port, as a stream does, and returns what gives
// them back.
func holdPort(c *cluster, external bool, name string, number uint16) (release func()) {
	kind := "pod"
	if external {
		kind = "external_workload"
	}
	p, err := c.server.open(&pb.PortSpec{Workload: fmt.Sprintf(`{"ns":"ns",%q:%q}`, kind, name), Port: uint32(number)})
	if err != nil {
		c.t.Fatal(err)
	}
	p.current()
	return p.close
}
