package outbound

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// A route appears when it is accepted, as one message.
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
				{"P159 P178 no rules", "[]", "", l7Variants},
				{"P160 P178 no backends", "[{}]", "\n  -> first " + parent.own, allVariants},
				{"P161 one backend", "[{backendRefs: [{" + parent.backend + "}]}]", "\n  -> random 1 x " + backend, l7Variants},
				{"P162 one backend", "[{backendRefs: [{" + parent.backend + "}]}]", "\n  -> random 1 x " + backend, []variant{tls_, tcp_}},
			} {
				if !contains(row.only, v) {
					continue
				}
				rulebook.Run(t, row.name+"/"+parent.name+"/"+v.name, func(t *testing.T) {
					bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
						c.apply(parent.doc(), backendSvc)
						s := c.watch("ns", parent.address)
						if len(s.Take()) != 1 {
							t.Fatal("not one message at first")
						}
						r := routeDoc{parents: []string{parent.ref}, rules: row.rules}
						r.unaccepted = true
						c.apply(v.route(r))
						s.want() // P113: not before it is accepted
						r.unaccepted = false
						c.apply(v.route(r))
						messages := s.Take()
						if len(messages) != 1 {
							t.Fatalf("%d messages", len(messages))
						}
						protocol := strings.Fields(v.line(""))[0]
						wantText(t, v.line("route")+row.want+parent.rest[protocol], routesOf(protocol, summary(messages[0])))
						c.remove(v.of("ns", "route")) // P178
						if messages = s.Take(); len(messages) != 1 {
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

// Older routes first; of one age, by name; of TCPRoutes there is one.
func TestRouteOrder(t *testing.T) {
	rulebook.Covers(t, "P168, P169")
	const old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	for _, v := range allVariants {
		for _, row := range []struct {
			name          string
			first, second routeDoc
		}{
			{"P168 P169 by age", routeDoc{name: "a-route", created: old}, routeDoc{name: "b-route", created: young}},
			{"P168 P169 by age, not name", routeDoc{name: "b-route", created: old}, routeDoc{name: "a-route", created: young}},
			{"P168 P169 by name", routeDoc{name: "a-route", created: old}, routeDoc{name: "b-route", created: old}},
		} {
			rulebook.Run(t, row.name+"/"+v.name, func(t *testing.T) {
				bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
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

// Routes without a time of creation come last (policy-outbound 3.4).
func TestRoutesWithoutAge(t *testing.T) {
	route := func(name string, created time.Time) *gateway.Route {
		return &gateway.Route{Object: &metav1.ObjectMeta{Namespace: "ns", Name: name}, Outbound: &gateway.Version{Created: created}}
	}
	aged, first, second := route("z", time.Unix(1, 0)), route("a", time.Time{}), route("b", time.Time{})
	list := []*gateway.Route{second, aged, first}
	slices.SortFunc(list, gateway.CompareOutbound)
	if want := []*gateway.Route{aged, first, second}; !slices.Equal(want, list) {
		t.Errorf("%s, %s, %s", list[0].GetName(), list[1].GetName(), list[2].GetName())
	}
}

// What is otherwise equal is ordered by namespace and group.
func TestRouteOrderOfEqualNames(t *testing.T) {
	const old = "2026-01-01T00:00:00Z"
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
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

// gRPC wins over HTTP, HTTP over TLS, TLS over TCP.
func TestProtocolOfRoutes(t *testing.T) {
	scenario(t, "P179", defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc())
		s := c.watch("ns", "10.96.0.10:4191")
		s.Take()
		for _, row := range []struct {
			v    variant
			head string
		}{{tcp_, "opaque"}, {tls_, "tls"}, {polHTTP, "detect"}, {grpc_, "grpc"}} {
			c.apply(row.v.route(routeDoc{}))
			wantText(t, "Service ns/my-svc:4191 "+row.head, head(summary(s.Take()[0])))
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
		{"B69 a type of a newer version", "{type: CORS, cors: {allowOrigins: ['*']}}", "", []variant{gwHTTP}},
		{"P184 rewrite", "{type: URLRewrite, urlRewrite: {}}", "", []variant{gwHTTP}},
		{"mirror", "{type: RequestMirror, requestMirror: {backendRef: {name: x}}}", "", []variant{gwHTTP, grpc_}},
		{"extension", "{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}", "", []variant{gwHTTP, grpc_}},
		{"without content", "{type: RequestHeaderModifier}", "", l7Variants},
		{"the type decides", "{type: RequestRedirect, requestHeaderModifier: {}}", "", []variant{polHTTP}},
		{"bad header", "{type: RequestHeaderModifier, requestHeaderModifier: {remove: ['a b']}}", "", l7Variants},
	} {
		for _, v := range row.only {
			rulebook.Run(t, row.name+"/"+v.name, func(t *testing.T) {
				bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
					c.apply(mySvc(), v.route(routeDoc{rules: "[{filters: [" + row.filters + "]}]"}))
					got := c.get("ns", "10.96.0.10:4191")
					if row.want == "" {
						wantText(t, defaultPolicy, got)
						if len(c.objects.Wrong("cannot be used for outbound policy", "ns/route")) != 1 {
							t.Errorf("problems %q", c.objects.Wrong())
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
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
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

// Routes out of a denying EgressNetwork let through what they match.
func TestRoutesOfDenyingEgressNetwork(t *testing.T) {
	const own = "{group: policy.linkerd.io, kind: EgressNetwork, name: my-egress, port: 4191}"
	scenario(t, "P190 P191 P295 P296 P297", defaultConfig(), func(t *testing.T, c *cluster) {
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

// Requests that match the valid rule pass, the others fail or find no route.
func TestValidAndInvalidRules(t *testing.T) {
	scenario(t, "P292", defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc(), polHTTP.route(routeDoc{rules: "[{matches: [{path: {value: /valid}}], backendRefs: [{name: my-svc, port: 4191}]}, {matches: [{path: {value: /invalid}}], backendRefs: [{name: nosuch, port: 4191}]}]"}))
		wantText(t, `
			http policy.linkerd.io/HTTPRoute ns/route
			  (path:{prefix:/valid}) -> random 1 x Service ns/my-svc:4191
			  (path:{prefix:/invalid}) -> random 1 x Service ns/nosuch:4191 invalid filters failure_injector:{status:500 message:Service not found nosuch}`,
			routesOf("http", c.get("ns", "10.96.0.10:4191")))
	})
}

// A version that cannot be used leaves the last one that can (policy-outbound 4).
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
			rulebook.Run(t, fmt.Sprint("P311 B69 ", row.v.name, " ", i), func(t *testing.T) {
				bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
					c.apply(mySvc())
					s := c.watch("ns", "10.96.0.10:4191")
					s.want(defaultPolicy)
					c.apply(row.v.route(bad))
					s.want()
					c.apply(row.v.route(routeDoc{}))
					if messages := s.Take(); len(messages) != 1 || !strings.Contains(summary(messages[0]), row.v.line("route")) {
						t.Fatalf("%v", messages)
					}
					c.apply(row.v.route(bad))
					bad.unaccepted = true
					c.apply(row.v.route(bad))
					s.want()
					if wrong := c.objects.Wrong("ns/route", "last valid version stays"); len(wrong) != 1 {
						t.Errorf("problems %q", c.objects.Wrong())
					}
					c.remove(row.v.of("ns", "route"))
					s.want(defaultPolicy)
					// Another object of the same name has nothing that could stay.
					c.apply(row.v.route(bad))
					s.want()
					c.apply(row.v.route(routeDoc{}))
					s.Take()
					bad.unaccepted, bad.created = false, "2030-01-01T00:00:00Z"
					c.apply(row.v.route(bad))
					s.want(defaultPolicy)
				})
			})
		}
	}
}
