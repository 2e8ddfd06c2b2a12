package outbound

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

// Undefined ports follow the Service, and streams stay open (P139).
func TestUndefinedPort(t *testing.T) {
	ports := func(list string) string { return serviceSpec("my-svc", "clusterIPs: [10.96.0.10], ports: ["+list+"]") }
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(ports("{port: 80}"))
		undefined := "Service ns/my-svc:4191 opaque\nopaque undefined-port\n  filters forbidden:{} -> nothing"
		s := c.watch("ns", "10.96.0.10:4191")
		s.want(undefined)
		c.apply(ports("{port: 80}, {port: 81}"))
		s.want()
		c.apply(ports("{port: 80}, {port: 4191}"))
		s.want(defaultPolicy)
		c.apply(ports("{port: 80}"))
		s.want(undefined)
		c.remove("Service/ns/my-svc")
		s.want()
		if s.End() != "" {
			t.Errorf("ended: %q", s.End())
		}
	})
}

// A stream that found a Service stays with it, whatever becomes of address and port.
func TestServiceStreams(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc())
		s := c.watch("other", "10.96.0.10:4191")
		s.want(defaultPolicy)
		for _, doc := range []string{
			mySvc("x: z"),
			service("my-svc", "10.96.0.99"),
			serviceSpec("my-svc", "clusterIPs: [10.96.0.99], ports: [{port: 1}]"),
			serviceSpec("my-svc", "type: ExternalName, externalName: example.org"),
		} {
			c.apply(doc)
			s.want()
		}
		c.remove("Service/ns/my-svc")
		s.want()
		c.apply(mySvc("config.linkerd.io/opaque-ports: '4191'"))
		s.want("Service ns/my-svc:4191 opaque\nopaque opaq\n  -> first Service ns/my-svc:4191")
		// What a Service said is forgotten with it.
		c.remove("Service/ns/my-svc")
		s.want(defaultPolicy)
		if s.End() != "" {
			t.Errorf("ended: %q", s.End())
		}
	})
}

// Nothing is sent when nothing changed.
func TestQuiet(t *testing.T) {
	scenario(t, "P133", defaultConfig(), func(t *testing.T, c *cluster) {
		docs := []string{mySvc(), egress("my-egress", "Allow", ""), backendSvc}
		for _, v := range allVariants {
			docs = append(docs, v.route(routeDoc{name: strings.ToLower(v.name), parents: []string{toSvc, toEgr}, rules: "[{backendRefs: [{name: backend, port: 1}]}]"}))
		}
		c.apply(docs...)
		var streams []*follower
		for _, to := range []string{"10.96.0.10:4191", "10.96.0.10:9999", "1.1.1.1:4191", "my-svc.ns.svc:80"} {
			streams = append(streams, c.watch("ns", to), c.watch("far", to))
		}
		for _, s := range streams {
			if n := len(s.Take()); n != 1 {
				t.Errorf("%d messages at first", n)
			}
		}
		for _, doc := range docs {
			c.apply(doc)
		}
		c.apply(strings.Replace(backendSvc, "annotations: {}", "labels: {a: b}", 1), service("unrelated", "10.96.0.77"),
			polHTTP.route(routeDoc{name: "unrelated", parents: []string{"group: core, kind: Service, name: unrelated"}}),
			polHTTP.route(routeDoc{name: "polhttp", parents: []string{toSvc, toEgr}, annotations: "a: b", rules: "[{backendRefs: [{name: backend, port: 1, weight: 1}]}]"}))
		for _, s := range streams {
			s.want()
			if s.End() != "" {
				t.Errorf("ended: %q", s.End())
			}
		}
	})
}

// Clients of all namespaces without routes of their own share one answer.
func TestAnswersAreShared(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc())
		var shared any
		for i := range 5 {
			sub, err := c.server.subscribe(spec(fmt.Sprint("ns-", i), "10.96.0.10:4191"))
			if err != nil {
				t.Fatal(err)
			}
			defer sub.release()
			value := sub.answer.Current().Value
			if shared == nil {
				shared = value
			}
			if shared != any(value) {
				t.Error("another answer")
			}
		}
	})
}

// A stop ends streams with OK, a client that leaves ends its own.
func TestStreamsEnd(t *testing.T) {
	rulebook.Covers(t, "P313")
	synctest.Test(t, streamsEnd)
}

func streamsEnd(t *testing.T) {
	c := newCluster(t, defaultConfig())
	c.apply(mySvc())
	s, left := c.watch("ns", "10.96.0.10:4191"), c.watch("far", "1.1.1.1:80")
	left.Cancel()
	synctest.Wait()
	if end := left.End(); !strings.HasPrefix(end, "Canceled") {
		t.Errorf("%q", end)
	}
	close(c.stopping)
	synctest.Wait()
	if s.End() != "OK" {
		t.Errorf("%q", s.End())
	}
	if held, size := c.server.views.held(), c.graph.Size(); held+size != 0 {
		t.Errorf("%d views and %d topics are left", held, size)
	}
}

// Problems name the object and the annotation, as long as they are there.
func TestWarnings(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc("timeout.linkerd.io/idle: 1x", "retry.linkerd.io/http: x", "retry.linkerd.io/grpc: x", balancer+": x",
			alpha+"failure-accrual-honor-retry-after: x", alpha+"penalize-failures: x", "config.linkerd.io/opaque-ports: x"))
		wantText(t, defaultPolicy, c.get("ns", "10.96.0.10:4191"))
		for _, annotation := range []string{settings.TimeoutIdleAnnotation, settings.RetryHTTPAnnotation, settings.RetryGRPCAnnotation, settings.FailureAccrualAnnotation + ":", settings.HonorRetryAfterAnnotation, settings.PenalizeFailuresAnnotation, "opaque ports"} {
			if wrong := c.objects.Wrong("Service ns/my-svc", annotation); len(wrong) != 1 {
				t.Errorf("%s: %q", annotation, wrong)
			}
		}
		for doc, want := range map[string]int{mySvc("timeout.linkerd.io/idle: 2x", "a: b"): 1, mySvc("a: b"): 0} {
			if c.apply(doc); len(c.objects.Wrong("ns/my-svc")) != want {
				t.Errorf("problems %q after\n%s", c.objects.Wrong(), doc)
			}
		}
	})
}

func TestIndexSizes(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc(), serviceSpec("dual", "clusterIPs: [10.96.0.20, 'fd00:10:96::20'], ports: [{port: 4191}]"), serviceSpec("headless", "clusterIPs: [None], ports: [{port: 1}]"),
			egress("my-egress", "Allow", ""), polHTTP.route(routeDoc{name: "a"}), gwHTTP.route(routeDoc{name: "b", parents: []string{"kind: Service, name: my-svc"}}),
			tls_.route(routeDoc{name: "d", parents: []string{"kind: Service, name: dual"}}),
			grpc_.route(routeDoc{name: "c", parents: []string{toEgr, toSvc + ", namespace: far"}}))
		want := `
# HELP outbound_index_service_index_size Number of cluster IPs in the index of outbound policy.
# TYPE outbound_index_service_index_size gauge
outbound_index_service_index_size 3
# HELP outbound_index_service_info_index_size Number of Services and EgressNetworks in the index of outbound policy.
# TYPE outbound_index_service_info_index_size gauge
outbound_index_service_info_index_size 4
# HELP outbound_index_service_port_route_index_size Number of ports with routes.
# TYPE outbound_index_service_port_route_index_size gauge
outbound_index_service_port_route_index_size{namespace="far"} 1
outbound_index_service_port_route_index_size{namespace="ns"} 2
# HELP outbound_index_service_route_index_size Number of Services with HTTPRoutes for all their ports.
# TYPE outbound_index_service_route_index_size gauge
outbound_index_service_route_index_size{namespace="ns"} 1
`
		if err := testutil.GatherAndCompare(c.registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}
