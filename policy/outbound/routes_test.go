package outbound

import (
	"fmt"
	"strings"
	"testing"
)

// P159-P162: a route appears when it is accepted, as one message.
func TestRouteAppears(t *testing.T) {
	for _, parent := range bothParents {
		backend := "Service ns/backend:8888"
		if parent.name == "EGR" {
			backend = "EgressNetwork ns/my-egress:8888 at 1.1.1.1:4191"
		}
		for _, v := range allVariants {
			for _, row := range []struct {
				name, rules, want string
				only              []variant
			}{
				{"P159 no rules", "[]", "", l7Variants},
				{"P160 no backends", "[{}]", "\n  -> first " + parent.own, allVariants},
				{"P161 one backend", "[{backendRefs: [{" + parent.backend + "}]}]", "\n  -> random 1 x " + backend, l7Variants},
				{"P162 one backend", "[{backendRefs: [{" + parent.backend + "}]}]", "\n  -> random 1 x " + backend, []variant{tls_, tcp_}},
			} {
				if !contains(row.only, v) {
					continue
				}
				t.Run(row.name+"/"+parent.name+"/"+v.name, func(t *testing.T) {
					bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
						c.apply(parent.doc(), backendSvc)
						s := c.watch("ns", parent.address)
						if len(s.take()) != 1 {
							t.Fatal("not one message at first")
						}
						r := routeDoc{parents: []string{parent.ref}, rules: row.rules}
						r.unaccepted = true
						c.apply(v.route(r))
						s.want() // P113: not before it is accepted
						r.unaccepted = false
						c.apply(v.route(r))
						messages := s.take()
						if len(messages) != 1 {
							t.Fatalf("%d messages", len(messages))
						}
						protocol := strings.Fields(v.line(""))[0]
						wantText(t, v.line("route")+row.want+parent.rest[protocol], routesOf(protocol, summary(messages[0])))
						c.remove(v.of("ns", "route")) // P178
						if messages = s.take(); len(messages) != 1 {
							t.Fatalf("%d messages after the route is gone", len(messages))
						}
						if parent.name == "SVC" {
							wantText(t, defaultPolicy, summary(messages[0]))
						} else {
							wantText(t, egressPolicy, summary(messages[0]))
						}
					})
				})
			}
		}
	}
}

func contains(list []variant, v variant) bool {
	for _, candidate := range list {
		if candidate == v {
			return true
		}
	}
	return false
}

// failure is how a kind of route says that a backend cannot be used.
func (v variant) failure(message string) string {
	switch v.kind {
	case "HTTPRoute":
		return " filters failure_injector:{status:500 message:" + message + "}"
	case "GRPCRoute":
		return " filters failure_injector:{code:500 message:" + message + "}"
	}
	return " filters invalid:{message:" + message + "}"
}

// Backends of all forms, P163-P167 and P185-P193.
func TestBackends(t *testing.T) {
	const invalid = "invalid invalid"
	other := egress("other", "Allow", "[{cidr: 9.9.9.9/32}]")
	const egr = "group: policy.linkerd.io, kind: EgressNetwork"
	far := strings.Replace(serviceSpec("far", "ports: [{port: 80}]"), "namespace: ns", "namespace: far", 1)
	for _, row := range []struct {
		name    string
		only    []variant
		parents []parentFixture
		refs    string
		// want are the backends; a failure's filter is added to %s.
		want, failure string
	}{
		{"P163 another namespace", allVariants, []parentFixture{svcParent}, "{kind: Service, name: far, namespace: far, port: 80}", "1 x Service far/far:80", ""},
		{"P164 missing", allVariants, bothParents, "{kind: Service, name: invalid, port: 8888}", "1 x Service ns/invalid:8888 invalid%s", "Service not found invalid"},
		{"P164b missing EgressNetwork", allVariants, []parentFixture{egrParent}, "{" + egr + ", name: invalid, port: 8888}", "1 x EgressNetwork ns/invalid:8888 invalid%s", "EgressNetwork not found invalid"},
		{"P166 unknown kind", allVariants, bothParents, "{kind: Unknown, name: a, port: 80}", "1 x " + invalid + "%s", "unsupported backend type core Unknown"},
		{"P166 unknown group", allVariants, bothParents, "{group: apps, name: a, port: 80}", "1 x " + invalid + "%s", "unsupported backend type apps <empty>"},
		{"P166 empty group", allVariants, bothParents, "{group: '', kind: Unknown, name: a, port: 80}", "1 x " + invalid + "%s", "unsupported backend type  Unknown"},
		{"P166 group without kind", allVariants, bothParents, "{group: policy.linkerd.io, name: my-egress, port: 80}", "1 x " + invalid + "%s", "unsupported backend type policy.linkerd.io <empty>"},
		{"P167 no port", allVariants, bothParents, "{kind: Service, name: backend}", "1 x " + invalid + "%s", "missing port for backend Service backend"},
		{"port that is none", allVariants, bothParents, "{kind: Service, name: backend, port: 65536}", "1 x " + invalid + "%s", "missing port for backend Service backend"},
		{"spellings of Service", allVariants, []parentFixture{svcParent}, "{name: backend, port: 1}, {group: CORE, kind: service, name: backend, port: 2}, {group: '', kind: Service, name: backend, port: 3}", "1 x Service ns/backend:1, 1 x Service ns/backend:2, 1 x Service ns/backend:3", ""},
		{"P186 Service of an EgressNetwork's route", allVariants, []parentFixture{egrParent}, "{kind: Service, name: backend, port: 8888}", "1 x Service ns/backend:8888", ""},
		{"P187 another EgressNetwork", allVariants, []parentFixture{egrParent}, "{" + egr + ", name: other, port: 8888}", "1 x EgressNetwork ns/other:8888 invalid%s", "Route with EgressNetwork backend needs to have the same EgressNetwork as a parent"},
		{"P188 EgressNetwork of a Service's route", allVariants, []parentFixture{svcParent}, "{" + egr + ", name: other, port: 8888}", "1 x EgressNetwork ns/other:8888 invalid%s", "EgressNetwork backends attach to EgressNetwork parents only"},
		{"P189 the same EgressNetwork", allVariants, []parentFixture{egrParent}, "{" + egr + ", name: my-egress, port: 8888}", "1 x EgressNetwork ns/my-egress:8888 at 1.1.1.1:4191", ""},
		{"the same EgressNetwork, without port and with weight", allVariants, []parentFixture{egrParent}, "{group: Policy.Linkerd.IO, kind: egressnetwork, name: my-egress, weight: 7}", "7 x EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191 weight 7", ""},
		{"P193 weights", allVariants, []parentFixture{svcParent}, "{name: backend, port: 1, weight: 3}, {name: backend, port: 2, weight: 0}, {name: gone, port: 3, weight: 2}", "3 x Service ns/backend:1, 0 x Service ns/backend:2, 2 x Service ns/gone:3 invalid%s", "Service not found gone"},
		{"P185 mirror", []variant{gwHTTP, grpc_}, bothParents, "{name: backend, port: 1, filters: [{type: RequestMirror, requestMirror: {backendRef: {name: x}}}]}", "1 x " + invalid + "%s", "unsupported backend filter: RequestMirror filter is not supported"},
		{"rewrite", []variant{gwHTTP}, bothParents, "{name: backend, filters: [{type: URLRewrite, urlRewrite: {}}]}", "1 x " + invalid + "%s", "unsupported backend filter: URLRewrite filter is not supported"},
		{"extension", []variant{gwHTTP, grpc_}, bothParents, "{name: backend, port: 1, filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]}", "1 x " + invalid + "%s", "unsupported backend filter: ExtensionRef filter is not supported"},
		{"the kind is looked at before filters", []variant{gwHTTP}, bothParents, "{kind: Unknown, name: a, filters: [{type: URLRewrite, urlRewrite: {}}]}", "1 x " + invalid + "%s", "unsupported backend type core Unknown"},
		{"P182 filters", httpVariants, bothParents, "{name: backend, port: 1, filters: [" + modifier + ", " + redirect + "]}", "1 x Service ns/backend:1 filters " + modifierText + "; " + redirectText, ""},
		{"response filter", httpVariants, bothParents, "{name: backend, port: 1, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [A]}}]}", "1 x Service ns/backend:1 filters response_header_modifier:{add:{} set:{} remove:[a]}", ""},
		{"P183 gRPC filter", []variant{grpc_}, bothParents, "{name: backend, port: 1, filters: [" + modifier + "]}", "1 x Service ns/backend:1 filters " + modifierText, ""},
		{"gRPC response filter is left out", []variant{grpc_}, bothParents, "{name: backend, port: 1, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [A]}}]}", "1 x Service ns/backend:1", ""},
	} {
		for _, parent := range row.parents {
			for _, v := range row.only {
				t.Run(row.name+"/"+parent.name+"/"+v.name, func(t *testing.T) {
					bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
						c.apply(parent.doc(), backendSvc, other, far, v.route(routeDoc{parents: []string{parent.ref}, rules: "[{backendRefs: [" + row.refs + "]}]"}))
						want := row.want
						if row.failure != "" {
							want = fmt.Sprintf(want, v.failure(row.failure))
						}
						protocol := strings.Fields(v.line(""))[0]
						wantText(t, v.line("route")+"\n  -> random "+want+parent.rest[protocol], routesOf(protocol, c.get("ns", parent.address)))
					})
				})
			}
		}
	}
}

const (
	modifier     = "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: foo, value: a}], add: [{name: Bar, value: b}], remove: [Baz]}}"
	modifierText = "request_header_modifier:{add:{headers:[{name:bar value:b}]} set:{headers:[{name:foo value:a}]} remove:[baz]}"
	redirect     = "{type: RequestRedirect, requestRedirect: {scheme: http, hostname: host, path: {type: ReplacePrefixMatch, replacePrefixMatch: /path}, port: 5555, statusCode: 302}}"
	redirectText = "redirect:{scheme:{registered:HTTP} host:host path:{prefix:/path} port:5555 status:302}"
)

// P165 and B62: a backend is valid as soon as, and as long as, it exists.
func TestBackendComesAndGoes(t *testing.T) {
	for _, v := range allVariants {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), v.route(routeDoc{rules: "[{backendRefs: [{name: backend, port: 8888}]}]"}))
				s := c.watch("ns", "10.96.0.10:4191")
				missing := summary(s.take()[0])
				if !strings.Contains(missing, "1 x Service ns/backend:8888 invalid"+v.failure("Service not found backend")) {
					t.Errorf("P164: %s", missing)
				}
				c.apply(backendSvc)
				present := summary(s.take()[0])
				if strings.Contains(present, "invalid") || !strings.Contains(present, "1 x Service ns/backend:8888") {
					t.Errorf("P165: %s", present)
				}
				c.remove("Service/ns/backend")
				s.want(missing)
				c.apply(backendSvc)
				s.want(present)
			})
		})
	}
}

// P168: older routes first; of one age, by name. P169: one TCPRoute.
func TestRouteOrder(t *testing.T) {
	const old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	for _, v := range allVariants {
		for _, row := range []struct {
			name          string
			first, second routeDoc
		}{
			{"by age", routeDoc{name: "a-route", created: old}, routeDoc{name: "b-route", created: young}},
			{"by age, not name", routeDoc{name: "b-route", created: old}, routeDoc{name: "a-route", created: young}},
			{"by name", routeDoc{name: "a-route", created: old}, routeDoc{name: "b-route", created: old}},
		} {
			t.Run(row.name+"/"+v.name, func(t *testing.T) {
				bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
					c.apply(mySvc(), v.route(row.second), v.route(row.first))
					want := v.line(row.first.name) + "\n  -> first Service ns/my-svc:4191"
					if v != tcp_ {
						want += "\n" + v.line(row.second.name) + "\n  -> first Service ns/my-svc:4191"
					}
					protocol := strings.Fields(v.line(""))[0]
					wantText(t, want, routesOf(protocol, c.get("ns", "10.96.0.10:4191")))
				})
			})
		}
	}
}

// What is otherwise equal is ordered by namespace and group.
func TestRouteOrderOfEqualNames(t *testing.T) {
	const old = "2026-01-01T00:00:00Z"
	bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc(), polHTTP.route(routeDoc{created: old}), gwHTTP.route(routeDoc{created: old}),
			polHTTP.route(routeDoc{namespace: "a", created: old, parents: []string{toSvc + ", namespace: ns"}}))
		wantText(t, `
			http policy.linkerd.io/HTTPRoute a/route
			  -> first Service ns/my-svc:4191
			http gateway.networking.k8s.io/HTTPRoute ns/route
			  -> first Service ns/my-svc:4191
			http policy.linkerd.io/HTTPRoute ns/route
			  -> first Service ns/my-svc:4191`, routesOf("http", c.get("a", "10.96.0.10:4191")))
	})
}

// P172: a parentRef without port is for all ports, declared or asked for by name alone.
func TestParentRefWithoutPort(t *testing.T) {
	for _, v := range allVariants {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc())
				streams := []*stream{c.watch("ns", "10.96.0.10:4191"), c.watch("ns", "10.96.0.10:9999"), c.watch("ns", "my-svc.ns.svc:1")}
				for _, s := range streams {
					s.take()
				}
				c.apply(v.route(routeDoc{parents: []string{"group: core, kind: Service, name: my-svc"}}))
				for _, s := range streams {
					if messages := s.take(); len(messages) != 1 || !strings.Contains(summary(messages[0]), v.line("route")) {
						t.Errorf("%v", messages)
					}
				}
			})
		})
	}
}

// P173-P176, P192 and B68: who a route applies to.
func TestProducersAndConsumers(t *testing.T) {
	for _, v := range allVariants {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), backendSvc)
				own, consumer, other := c.watch("ns", "10.96.0.10:4191"), c.watch("consumer", "10.96.0.10:4191"), c.watch("other", "10.96.0.10:4191")
				all := []*stream{own, consumer, other}
				for _, s := range all {
					s.want(defaultPolicy)
				}
				// Without a namespace, the backend is in the parent's (P192).
				c.apply(v.route(routeDoc{namespace: "consumer", name: "theirs", parents: []string{toSvc + ", namespace: ns"}, rules: "[{backendRefs: [{name: backend, port: 8888}]}]"}))
				own.want()
				other.want()
				protocol := strings.Fields(v.line(""))[0]
				theirs := strings.Replace(v.line("theirs"), "ns/", "consumer/", 1) + "\n  -> random 1 x Service ns/backend:8888"
				messages := consumer.take()
				if len(messages) != 1 {
					t.Fatalf("P175: %d messages", len(messages))
				}
				wantText(t, theirs, routesOf(protocol, summary(messages[0])))

				c.apply(v.route(routeDoc{name: "mine"}))
				mine := v.line("mine") + "\n  -> first Service ns/my-svc:4191"
				for _, s := range []*stream{own, other} {
					messages := s.take()
					if len(messages) != 1 {
						t.Fatalf("P173: %d messages", len(messages))
					}
					wantText(t, mine, routesOf(protocol, summary(messages[0])))
				}
				both := theirs + "\n" + mine // sorted together, the older first (P176)
				if v == tcp_ {
					both = theirs
					consumer.want()
				} else {
					consumer.take()
				}
				wantText(t, both, routesOf(protocol, c.get("consumer", "10.96.0.10:4191")))
				wantText(t, mine, routesOf(protocol, c.get("late", "10.96.0.10:4191"))) // P174

				c.remove(v.of("consumer", "theirs"))
				own.want()
				other.want()
				wantText(t, mine, routesOf(protocol, summary(consumer.take()[0])))
			})
		})
	}
}

// P177 and B62: a route follows its parent and its status, as one message each.
func TestRouteChangesParent(t *testing.T) {
	const toOther = "group: core, kind: Service, name: other, port: 4191"
	for _, v := range allVariants {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), service("other", "10.96.0.11"), v.route(routeDoc{}))
				s, other := c.watch("ns", "10.96.0.10:4191"), c.watch("ns", "10.96.0.11:4191")
				before := summary(s.take()[0])
				other.take()
				c.apply(v.route(routeDoc{parents: []string{toOther}, status: []string{toSvc}}))
				c.apply(v.route(routeDoc{parents: []string{toOther}}))
				s.want(defaultPolicy)
				if messages := other.take(); len(messages) != 1 || !strings.Contains(summary(messages[0]), v.line("route")) {
					t.Errorf("%v", messages)
				}
				c.apply(v.route(routeDoc{parents: []string{toSvc}, status: []string{toOther}}))
				c.apply(v.route(routeDoc{}))
				s.want(before)
				if messages := other.take(); len(messages) != 1 || strings.Contains(summary(messages[0]), v.line("route")) {
					t.Errorf("%v", messages)
				}
			})
		})
	}
}

// P113: what attaches (policy-outbound 4). Each row is a reference and the
// reference that the status accepts.
func TestAttachment(t *testing.T) {
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
		{"own namespace", toSvc + ", namespace: ns", toSvc, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), polHTTP.route(routeDoc{parents: []string{row.ref}, status: []string{row.status}}))
				if got := strings.Contains(c.get("ns", "10.96.0.10:4191"), polHTTP.line("route")); got != row.want {
					t.Errorf("attached: %v", got)
				}
			})
		})
	}
	t.Run("EgressNetwork without port", func(t *testing.T) {
		bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
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

// P179: gRPC wins over HTTP, HTTP over TLS, TLS over TCP.
func TestProtocolOfRoutes(t *testing.T) {
	bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc())
		s := c.watch("ns", "10.96.0.10:4191")
		s.take()
		for _, row := range []struct {
			v    variant
			head string
		}{{tcp_, "opaque"}, {tls_, "tls"}, {polHTTP, "detect"}, {grpc_, "grpc"}} {
			c.apply(row.v.route(routeDoc{}))
			wantText(t, "Service ns/my-svc:4191 "+row.head, head(summary(s.take()[0])))
		}
		c.remove("GRPCRoute/ns/route")
		// detect's opaque route is never a TCPRoute.
		s.want(`
			Service ns/my-svc:4191 detect
			opaque opaq
			  -> first Service ns/my-svc:4191
			http policy.linkerd.io/HTTPRoute ns/route
			  -> first Service ns/my-svc:4191`)
	})
}

// Filters of rules, P180, P181, P183 and P184.
func TestRuleFilters(t *testing.T) {
	for _, row := range []struct {
		name, filters, want string
		only                []variant
	}{
		{"P180 P181", modifier + ", " + redirect, modifierText + "; " + redirectText, httpVariants},
		{"order", redirect + ", " + modifier, redirectText + "; " + modifierText, httpVariants},
		{"P183", modifier, modifierText, []variant{grpc_}},
		{"response modifier of the gateway's route", "{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: A, value: b}]}}", "response_header_modifier:{add:{} set:{headers:[{name:a value:b}]}}", httpVariants},
		{"empty modifier", "{type: RequestHeaderModifier, requestHeaderModifier: {}}", "request_header_modifier:{add:{} set:{}}", l7Variants},
		{"the field decides", "{type: RequestRedirect, requestHeaderModifier: {}}", "request_header_modifier:{add:{} set:{}}", []variant{gwHTTP, grpc_}},
		{"P184 rewrite", "{type: URLRewrite, urlRewrite: {}}", "", []variant{gwHTTP}},
		{"mirror", "{type: RequestMirror, requestMirror: {backendRef: {name: x}}}", "", []variant{gwHTTP, grpc_}},
		{"extension", "{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}", "", []variant{gwHTTP, grpc_}},
		{"without content", "{type: RequestHeaderModifier}", "", l7Variants},
		{"the type decides", "{type: RequestRedirect, requestHeaderModifier: {}}", "", []variant{polHTTP}},
		{"bad header", "{type: RequestHeaderModifier, requestHeaderModifier: {remove: ['a b']}}", "", l7Variants},
	} {
		for _, v := range row.only {
			t.Run(row.name+"/"+v.name, func(t *testing.T) {
				bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
					c.apply(mySvc(), v.route(routeDoc{rules: "[{filters: [" + row.filters + "]}]"}))
					got := c.get("ns", "10.96.0.10:4191")
					if row.want == "" {
						wantText(t, defaultPolicy, got)
						if len(c.log.lines("object cannot be used for outbound policy", "ns/route")) != 1 {
							t.Errorf("log:\n%s", c.log.b.String())
						}
						return
					}
					protocol := strings.Fields(v.line(""))[0]
					wantText(t, v.line("route")+"\n  filters "+row.want+" -> first Service ns/my-svc:4191", routesOf(protocol, got))
				})
			})
		}
	}
}

// Rules, matches and hosts are converted in order (B74: hosts as they are
// written, proxies compare them without regard to case).
func TestMatchesAndHosts(t *testing.T) {
	bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc(), polHTTP.route(routeDoc{hostnames: "['*.A.b', web.example]", rules: "[{matches: [{path: {type: Exact, value: /a}, method: GET}, {headers: [{name: X, value: z}]}]}, {matches: [{queryParams: [{name: q, value: v}]}]}]"}))
		wantText(t, `
			http policy.linkerd.io/HTTPRoute ns/route hosts suffix:{reverse_labels:[b A]}; exact:web.example
			  (path:{exact:/a} method:{registered:GET}); (headers:[{name:x exact:z}]) -> first Service ns/my-svc:4191
			  (query_params:[{name:q exact:v}]) -> first Service ns/my-svc:4191`, routesOf("http", c.get("ns", "10.96.0.10:4191")))
		c.apply(grpc_.route(routeDoc{hostnames: "['*.a.b']", rules: "[{matches: [{method: {service: s, method: m}}, {headers: [{name: X, value: z}]}]}]"}))
		wantText(t, `
			grpc gateway.networking.k8s.io/GRPCRoute ns/route hosts suffix:{reverse_labels:[b a]}
			  (rpc:{service:s method:m}); (rpc:{} headers:[{name:x exact:z}]) -> first Service ns/my-svc:4191`, routesOf("grpc", c.get("ns", "10.96.0.10:4191")))
		c.remove("GRPCRoute/ns/route", "HTTPRoute/ns/route")
		c.apply(tls_.route(routeDoc{hostnames: "['*.a.b', web.example]"}))
		wantText(t, `
			tls gateway.networking.k8s.io/TLSRoute ns/route snis suffix:{reverse_labels:[b a]}; exact:web.example
			  -> first Service ns/my-svc:4191`, routesOf("tls", c.get("ns", "10.96.0.10:4191")))
	})
}

// P190, P191, P295-P297: routes out of a denying EgressNetwork let through what they match.
func TestRoutesOfDenyingEgressNetwork(t *testing.T) {
	const own = "{group: policy.linkerd.io, kind: EgressNetwork, name: my-egress, port: 4191}"
	bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(egress("my-egress", "Deny", ""), backendSvc, tls_.route(routeDoc{parents: []string{toEgr}, hostnames: "[allowed.example]", rules: "[{backendRefs: [" + own + "]}]"}))
		wantText(t, `
			EgressNetwork ns/my-egress:4191 tls
			tls gateway.networking.k8s.io/TLSRoute ns/route snis exact:allowed.example
			  -> random 1 x EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191
			tls tls-egress-deny
			  filters forbidden:{} -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191`, c.get("ns", "1.1.1.1:4191"))

		c.remove("TLSRoute/ns/route")
		c.apply(tcp_.route(routeDoc{parents: []string{toEgr}}))
		wantText(t, `
			EgressNetwork ns/my-egress:4191 opaque
			opaque gateway.networking.k8s.io/TCPRoute ns/route
			  -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191`, c.get("ns", "1.1.1.1:4191"))
		// P297
		c.apply(tcp_.route(routeDoc{parents: []string{toEgr}, rules: "[{backendRefs: [{name: backend, port: 80}]}]"}))
		wantText(t, `
			EgressNetwork ns/my-egress:4191 opaque
			opaque gateway.networking.k8s.io/TCPRoute ns/route
			  -> random 1 x Service ns/backend:80`, c.get("ns", "1.1.1.1:4191"))

		c.apply(gwHTTP.route(routeDoc{parents: []string{toEgr}, hostnames: "[httpbin.org]", rules: "[{matches: [{path: {value: /get}, method: GET}], backendRefs: [" + own + "]}]"}))
		wantText(t, `
			EgressNetwork ns/my-egress:4191 detect
			opaque tcp-egress-deny
			  filters forbidden:{} -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191
			http gateway.networking.k8s.io/HTTPRoute ns/route hosts exact:httpbin.org
			  (path:{prefix:/get} method:{registered:GET}) -> random 1 x EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191
			http http-egress-deny
			  (path:{prefix:/}) filters failure_injector:{status:403 message:traffic not allowed} -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191`, c.get("ns", "1.1.1.1:4191"))

		c.apply(grpc_.route(routeDoc{parents: []string{toEgr}}))
		wantText(t, `
			EgressNetwork ns/my-egress:4191 grpc
			grpc gateway.networking.k8s.io/GRPCRoute ns/route
			  -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191
			grpc grpc-egress-deny
			  filters failure_injector:{code:7 message:traffic not allowed} -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191`, c.get("ns", "1.1.1.1:4191"))
	})
}

// P292: requests that match the valid rule pass, the others fail or find no route.
func TestValidAndInvalidRules(t *testing.T) {
	bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc(), polHTTP.route(routeDoc{rules: "[{matches: [{path: {value: /valid}}], backendRefs: [{name: my-svc, port: 4191}]}, {matches: [{path: {value: /invalid}}], backendRefs: [{name: nosuch, port: 4191}]}]"}))
		wantText(t, `
			http policy.linkerd.io/HTTPRoute ns/route
			  (path:{prefix:/valid}) -> random 1 x Service ns/my-svc:4191
			  (path:{prefix:/invalid}) -> random 1 x Service ns/nosuch:4191 invalid filters failure_injector:{status:500 message:Service not found nosuch}`,
			routesOf("http", c.get("ns", "10.96.0.10:4191")))
	})
}

// P311, B69 and policy-outbound 4: a version that cannot be used leaves the last one that can.
func TestUnusableVersionLeavesLast(t *testing.T) {
	for _, row := range []struct {
		v    variant
		docs []routeDoc
	}{
		{polHTTP, []routeDoc{{annotations: "timeout.linkerd.io/idle: 1x"}, {annotations: "retry.linkerd.io/http: ''"}, {rules: "[{matches: [{path: {value: relative}}]}]"}, {rules: "[{timeouts: {request: 1y}}]"}, {rules: "[{timeouts: {backendRequest: x}}]"}}},
		{gwHTTP, []routeDoc{{annotations: "timeout.linkerd.io/request: -1s"}, {annotations: "retry.linkerd.io/limit: ' 1'"}, {rules: "[{filters: [{type: URLRewrite, urlRewrite: {}}]}]"}}},
		{grpc_, []routeDoc{{annotations: "retry.linkerd.io/grpc: unknown"}, {annotations: "timeout.linkerd.io/response: 5"}, {rules: "[{matches: [{method: {type: RegularExpression, service: s}}]}]"}}},
		{tls_, []routeDoc{{rules: "[]"}, {rules: "[{}, {}]"}}},
		{tcp_, []routeDoc{{rules: "[]"}, {rules: "[{}, {}]"}}},
	} {
		for i, bad := range row.docs {
			t.Run(fmt.Sprint(row.v.name, " ", i), func(t *testing.T) {
				bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
					c.apply(mySvc())
					s := c.watch("ns", "10.96.0.10:4191")
					s.want(defaultPolicy)
					c.apply(row.v.route(bad))
					s.want()
					c.apply(row.v.route(routeDoc{}))
					if messages := s.take(); len(messages) != 1 || !strings.Contains(summary(messages[0]), row.v.line("route")) {
						t.Fatalf("%v", messages)
					}
					c.apply(row.v.route(bad))
					bad.unaccepted = true
					c.apply(row.v.route(bad))
					s.want()
					if n := len(c.log.lines("level=WARN", "ns/route")); n != 3 {
						t.Errorf("%d warnings", n)
					}
					c.remove(row.v.of("ns", "route"))
					s.want(defaultPolicy)
					// Another object of the same name has nothing that could stay.
					c.apply(row.v.route(bad))
					s.want()
				})
			})
		}
	}
}
