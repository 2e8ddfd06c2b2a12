package outbound

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A parentRef without port is for all ports, declared or asked for by name alone.
func TestParentRefWithoutPort(t *testing.T) {
	for _, v := range allVariants {
		rulebook.Run(t, "P172 "+v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc())
				streams := []*follower{c.watch("ns", "10.96.0.10:4191"), c.watch("ns", "10.96.0.10:9999"), c.watch("ns", "my-svc.ns.svc:1")}
				for _, s := range streams {
					s.Take()
				}
				c.apply(v.route(routeDoc{parents: []string{"group: core, kind: Service, name: my-svc"}}))
				for _, s := range streams {
					if messages := s.Take(); len(messages) != 1 || !strings.Contains(summary(messages[0]), v.line("route")) {
						t.Errorf("%v", messages)
					}
				}
			})
		})
	}
}

// Who a route applies to.
func TestProducersAndConsumers(t *testing.T) {
	for _, v := range allVariants {
		rulebook.Run(t, "P173 P174 P175 P176 P192 B68 "+v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), backendSvc)
				own, consumer, other := c.watch("ns", "10.96.0.10:4191"), c.watch("consumer", "10.96.0.10:4191"), c.watch("other", "10.96.0.10:4191")
				all := []*follower{own, consumer, other}
				for _, s := range all {
					s.want(defaultPolicy)
				}
				// Without a namespace, the backend is in the parent's (P192).
				c.apply(v.route(routeDoc{namespace: "consumer", name: "theirs", parents: []string{toSvc + ", namespace: ns"}, rules: "[{backendRefs: [{name: backend, port: 8888}]}]"}))
				own.want()
				other.want()
				protocol := strings.Fields(v.line(""))[0]
				theirs := strings.Replace(v.line("theirs"), "ns/", "consumer/", 1) + "\n  -> random 1 x Service ns/backend:8888"
				messages := consumer.Take()
				if len(messages) != 1 {
					t.Fatalf("P175: %d messages", len(messages))
				}
				wantText(t, theirs, routesOf(protocol, summary(messages[0])))

				c.apply(v.route(routeDoc{name: "mine"}))
				mine := v.line("mine") + "\n  -> first Service ns/my-svc:4191"
				for _, s := range []*follower{own, other} {
					messages := s.Take()
					if len(messages) != 1 {
						t.Fatalf("P173: %d messages", len(messages))
					}
					wantText(t, mine, routesOf(protocol, summary(messages[0])))
				}
				both := theirs + "\n" + mine // sorted together, the older first (P176)
				if v == tcp_ {
					both = theirs
				}
				if messages := consumer.Take(); len(messages) != 1 {
					t.Errorf("P176 G3: %d messages", len(messages))
				}
				wantText(t, both, routesOf(protocol, c.get("consumer", "10.96.0.10:4191")))
				wantText(t, mine, routesOf(protocol, c.get("late", "10.96.0.10:4191"))) // P174

				c.remove(v.of("consumer", "theirs"))
				own.want()
				other.want()
				wantText(t, mine, routesOf(protocol, summary(consumer.Take()[0])))
			})
		})
	}
}

// A route that the policy has no place for is one that clients are told of,
// with the message that they have. What changes nothing is not, nor what changes inside of
// it.
func TestRouteWithoutAPlaceIsTold(t *testing.T) {
	rulebook.Covers(t, "G3")
	const old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	for _, row := range []struct {
		name          string
		first, second string
		// changed is the second with another backend, gone its name.
		changed, gone string
	}{
		{"a second TCPRoute", tcp_.route(routeDoc{name: "a", created: old}), tcp_.route(routeDoc{name: "b", created: young}),
			tcp_.route(routeDoc{name: "b", created: young, rules: "[{backendRefs: [{name: other, port: 1}]}]"}), tcp_.of("ns", "b")},
		{"a TLSRoute beside an HTTPRoute", gwHTTP.route(routeDoc{name: "a"}), tls_.route(routeDoc{name: "b"}),
			tls_.route(routeDoc{name: "b", rules: "[{backendRefs: [{name: other, port: 1}]}]"}), tls_.of("ns", "b")},
	} {
		t.Run("G3 "+row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), row.first)
				s := c.watch("ns", "10.96.0.10:4191")
				before := summary(s.Take()[0])
				c.apply(row.second)
				s.want(before)
				c.apply(row.second)
				s.want()
				c.apply(row.changed)
				s.want()
				c.remove(row.gone)
				s.want(before)
			})
		})
	}
}

// Routes for the global EgressNetwork: those of its own namespace are for all,
// those of a client's namespace for that, and backends without a namespace are
// in the EgressNetwork's (P192).
func TestRoutesForTheGlobalEgressNetwork(t *testing.T) {
	const global = "group: policy.linkerd.io, kind: EgressNetwork, name: global"
	for _, v := range allVariants {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				protocol := strings.Fields(v.line(""))[0]
				routes := func(namespace string) string {
					var names []string
					for _, line := range strings.Split(c.get(namespace, "1.1.1.1:443"), "\n") {
						if strings.HasPrefix(line, protocol+" ") && strings.Contains(line, v.kind) {
							names = append(names, strings.Fields(line)[2])
						}
					}
					return strings.Join(names, " ")
				}
				c.apply(egressOf("linkerd-egress", "global", "Deny", ""))
				client := c.watch("client", "1.1.1.1:443")
				client.Take()
				c.apply(v.route(routeDoc{namespace: "client", name: "theirs", parents: []string{global + ", namespace: linkerd-egress, port: 443"},
					rules: "[{backendRefs: [{" + global + "}, {name: web, port: 1}]}]"}))
				if messages := client.Take(); len(messages) != 1 {
					t.Errorf("%d messages", len(messages))
				}
				want := "-> random 1 x EgressNetwork linkerd-egress/global:443 at 1.1.1.1:443, 1 x Service linkerd-egress/web:1 invalid" + v.failure("Service not found web")
				if got := c.get("client", "1.1.1.1:443"); !strings.Contains(got, want) {
					t.Errorf("%s lacks\n%s", got, want)
				}
				wantText(t, "client/theirs", routes("client"))
				wantText(t, "", routes("ns"))
				c.apply(v.route(routeDoc{namespace: "linkerd-egress", name: "all", parents: []string{global + ", port: 443"}}))
				both := "client/theirs linkerd-egress/all"
				if v == tcp_ {
					both = "client/theirs"
				}
				wantText(t, both, routes("client"))
				wantText(t, "linkerd-egress/all", routes("ns"))
				wantText(t, "linkerd-egress/all", routes("linkerd-egress"))
				// A network of the client's own has none of these routes.
				c.apply(egressOf("client", "global", "Deny", ""))
				if client.End() != "OK" {
					t.Errorf("%q", client.End())
				}
				wantText(t, "", routes("client"))
			})
		})
	}
}

// A route follows its parent and its status, as one message each.
func TestRouteChangesParent(t *testing.T) {
	const toOther = "group: core, kind: Service, name: other, port: 4191"
	for _, v := range allVariants {
		rulebook.Run(t, "P177 B62 "+v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), service("other", "10.96.0.11"), v.route(routeDoc{}))
				s, other := c.watch("ns", "10.96.0.10:4191"), c.watch("ns", "10.96.0.11:4191")
				before := summary(s.Take()[0])
				other.Take()
				c.apply(v.route(routeDoc{parents: []string{toOther}, status: []string{toSvc}}))
				c.apply(v.route(routeDoc{parents: []string{toOther}}))
				s.want(defaultPolicy)
				if messages := other.Take(); len(messages) != 1 || !strings.Contains(summary(messages[0]), v.line("route")) {
					t.Errorf("%v", messages)
				}
				c.apply(v.route(routeDoc{parents: []string{toSvc}, status: []string{toOther}}))
				c.apply(v.route(routeDoc{}))
				s.want(before)
				if messages := other.Take(); len(messages) != 1 || strings.Contains(summary(messages[0]), v.line("route")) {
					t.Errorf("%v", messages)
				}
			})
		})
	}
}

// A parent of the same name in another namespace is another parent, although
// the status that accepts is found by name alone (policy-outbound 4).
func TestRouteMovesToTheSameNameElsewhere(t *testing.T) {
	for _, v := range allVariants {
		rulebook.Run(t, "P177 "+v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), strings.Replace(service("my-svc", "10.96.0.11"), "namespace: ns", "namespace: b", 1))
				before, after := toSvc+", namespace: ns", toSvc+", namespace: b"
				c.apply(v.route(routeDoc{namespace: "far", parents: []string{before}}))
				a, b := c.watch("far", "10.96.0.10:4191"), c.watch("far", "10.96.0.11:4191")
				has := func(s *follower) (n int, with bool) {
					messages := s.Take()
					if len(messages) > 0 {
						with = strings.Contains(summary(messages[len(messages)-1]), " far/route")
					}
					return len(messages), with
				}
				if n, with := has(a); n != 1 || !with {
					t.Errorf("at first: %d messages, attached %v", n, with)
				}
				if n, with := has(b); n != 1 || with {
					t.Errorf("elsewhere at first: %d messages, attached %v", n, with)
				}
				c.apply(v.route(routeDoc{namespace: "far", parents: []string{after}}))
				if n, with := has(a); n != 1 || with {
					t.Errorf("after the move: %d messages, attached %v", n, with)
				}
				if n, with := has(b); n != 1 || !with {
					t.Errorf("elsewhere after the move: %d messages, attached %v", n, with)
				}
			})
		})
	}
}

// Each parent has the route on the port that its own reference names.
func TestParentsOnDifferentPorts(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		const toOther = "group: core, kind: Service, name: other, port: 9999"
		c.apply(mySvc(), service("other", "10.96.0.11"), polHTTP.route(routeDoc{parents: []string{toSvc, toOther}}),
			polHTTP.route(routeDoc{namespace: "far", name: "theirs", parents: []string{toSvc + ", namespace: ns", toOther + ", namespace: ns", "group: core, kind: Service, name: other, namespace: ns, port: 1"}}))
		for to, want := range map[string]bool{"10.96.0.10:4191": true, "10.96.0.10:9999": false, "10.96.0.11:4191": false, "10.96.0.11:9999": true} {
			got := c.get("far", to)
			for _, route := range []string{"ns/route", "far/theirs"} {
				if n := strings.Count(got, "HTTPRoute "+route); n > 1 || n == 1 != want {
					t.Errorf("%s, %s:\n%s", to, route, got)
				}
			}
		}
	})
}

// What other controllers' parents may have is no matter for a warning.
func TestRoutesOfOthersAreNotWarnedOf(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc(), gwHTTP.route(routeDoc{parents: []string{"group: gateway.networking.k8s.io, kind: Gateway, name: gw"}, rules: "[{filters: [{type: URLRewrite, urlRewrite: {}}]}]"}),
			gwHTTP.route(routeDoc{name: "in", parents: []string{"group: policy.linkerd.io, kind: Server, name: s"}, rules: "[{filters: [{type: URLRewrite, urlRewrite: {}}]}]"}))
		if wrong := append(c.objects.Wrong("ns/route"), c.objects.Wrong("outbound policy")...); len(wrong) != 0 {
			t.Errorf("problems %q", wrong)
		}
	})
}

// What attaches (policy-outbound 4). Each row is a reference and the
// reference that the status accepts.
func TestAttachment(t *testing.T) {
	rulebook.Covers(t, "P113")
	for _, row := range []struct {
		name, ref, status string
		want              bool
	}{
		{"port", "kind: Service, name: my-svc, port: 4191", "kind: Service, name: my-svc, port: 4191", true},
		{"status without port", toSvc, "group: core, kind: Service, name: my-svc", true},
		{"status with another port", toSvc, "group: core, kind: Service, name: my-svc, port: 9999", false},
		{"no port, status with one", "kind: Service, name: my-svc", "kind: Service, name: my-svc, port: 9999", true},
		{"another port", "kind: Service, name: my-svc, port: 9999", "kind: Service, name: my-svc, port: 9999", false},
		{"port out of range is none", "kind: Service, name: my-svc, port: 70000", "kind: Service, name: my-svc", true},
		{"empty group", "group: '', kind: Service, name: my-svc, port: 4191", "group: core, kind: Service, name: my-svc, port: 4191", true},
		{"other case", "group: Core, kind: service, name: my-svc, port: 4191", "group: core, kind: Service, name: my-svc, port: 4191", true},
		{"other case in the status", toSvc, "group: core, kind: service, name: my-svc, port: 4191", false},
		{"gateway group", "group: gateway.networking.k8s.io, kind: Service, name: my-svc, port: 4191", toSvc, false},
		{"no kind", "group: core, name: my-svc, port: 4191", toSvc, false},
		{"status without kind", toSvc, "group: core, name: my-svc, port: 4191", false},
		{"status of another name", toSvc, "group: core, kind: Service, name: other, port: 4191", false},
		{"the status's namespace does not matter", toSvc, toSvc + ", namespace: elsewhere", true},
		{"another namespace", toSvc + ", namespace: elsewhere", toSvc, false},
		{"empty namespace", toSvc + ", namespace: ''", toSvc, true},
		{"status of another group", toSvc, "group: gateway.networking.k8s.io, kind: Service, name: my-svc, port: 4191", false},
		{"own namespace", toSvc + ", namespace: ns", toSvc, true},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), polHTTP.route(routeDoc{parents: []string{row.ref}, status: []string{row.status}}))
				if got := strings.Contains(c.get("ns", "10.96.0.10:4191"), polHTTP.line("route")); got != row.want {
					t.Errorf("attached: %v", got)
				}
			})
		})
	}
	t.Run("another condition", func(t *testing.T) {
		bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
			c.apply(mySvc(), strings.Replace(polHTTP.route(routeDoc{}), "type: Accepted", "type: ResolvedRefs", 1))
			wantText(t, defaultPolicy, c.get("ns", "10.96.0.10:4191"))
		})
	})
	t.Run("EgressNetwork without port", func(t *testing.T) {
		bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
			const ref = "group: policy.linkerd.io, kind: EgressNetwork, name: my-egress"
			c.apply(egress("my-egress", "Allow", ""), polHTTP.route(routeDoc{parents: []string{ref}}))
			wantText(t, egressPolicy, c.get("ns", "1.1.1.1:4191"))
			c.apply(polHTTP.route(routeDoc{parents: []string{ref + ", port: 4191"}, status: []string{ref}}))
			if !strings.Contains(c.get("ns", "1.1.1.1:4191"), polHTTP.line("route")) {
				t.Error("not attached")
			}
		})
	})
}
