package inbound

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// What open streams hear of changes to several objects that have to do with one another.
func TestChanges(t *testing.T) {
	const unowned = "default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute
	const opaque = ", proxyProtocol: opaque"
	server := func(name string) string { return "policy.linkerd.io server/" + name }
	run(t, map[string]scenario{
		"4.4 a Server loses one port and keeps another": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("a", "}\nspec: {containers: [{name: c, ports: [{name: http, containerPort: 80}]}, {name: d, ports: [{name: http, containerPort: 8080}]}]}"),
				serverOn("z-number", "80", ", proxyProtocol: TLS"), serverOn("a-name", "http", opaque))
			taken, kept := c.watch("ns:a", 80), c.watch("ns:a", 8080)
			taken.want(server("z-number") + " tls")
			kept.want(server("a-name") + " opaque")
			c.remove("Server/ns/z-number")
			taken.want(server("a-name") + " opaque")
			kept.quiet()
			c.apply(serverOn("z-number", "80", ", proxyProtocol: TLS")) // younger now
			taken.quiet()
			c.apply(serverOn("a-name", "8080", opaque))
			taken.want(server("z-number") + " tls")
			kept.quiet()
		}},
		"4.4 a Server without a time comes first": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("a", "}\nspec: {}"), serverOn("a", "80", opaque))
			w := c.watch("ns:a", 80)
			w.want(server("a") + " opaque")
			// What the harness stores has a time.
			timeless := serverOn("z", "80", ", proxyProtocol: TLS")
			if err := objects.Put(c.state, objects.Name(t, timeless), timeless, nil); err != nil {
				t.Fatal(err)
			}
			c.settle()
			w.want(server("z") + " tls")
		}},
		"4.4 a Server turns to other ports and workloads": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("a", "}\nspec: {}"), "kind: ExternalWorkload\nmetadata: {namespace: ns, name: a}\nspec: {meshTLS: {identity: a, serverName: a}}", serverOn("s", "80", opaque))
			first, second := c.watch("ns:a", 80), c.watch("ns:a", 81)
			outside := c.watch(`{"ns":"ns","external_workload":"a"}`, 81)
			first.want(server("s") + " opaque")
			second.want(unowned)
			outside.want(unowned)
			c.apply(serverOn("s", "81", opaque))
			first.want(unowned)
			second.want(server("s") + " opaque")
			c.apply(strings.Replace(serverOn("s", "81", opaque), "podSelector", "externalWorkloadSelector", 1))
			second.want(unowned)
			outside.want(server("s") + " opaque")
			first.quiet()
		}},
		"4.1 the labels of a Pod decide": {run: func(t *testing.T, c *cluster) {
			labelled := func(tier string) string {
				return "kind: Pod\nmetadata: {namespace: ns, name: a, labels: {tier: " + tier + ", linkerd.io/control-plane-ns: any}}\nspec: {}"
			}
			c.apply(labelled("front"), strings.Replace(serverOn("s", "80", opaque), "{}", "{matchLabels: {tier: back}}", 1))
			w := c.watch("ns:a", 80)
			w.want(unowned)
			c.apply(labelled("back"))
			w.want(server("s") + " opaque")
			c.apply(labelled("rear"))
			w.want(unowned)
		}},
		"5 annotations are for ports without a Server": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("a", "}\nspec: {}"), serverOn("s", "80", ", accessPolicy: all-unauthenticated"))
			w := c.watch("ns:a", 80)
			owned := server("s") + " detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute
			w.want(owned)
			c.apply(annotated("a", "config.linkerd.io/default-inbound-policy: cluster-unauthenticated, config.linkerd.io/opaque-ports: '80', config.linkerd.io/proxy-require-identity-inbound-ports: '80'"))
			w.quiet()
			c.remove("Server/ns/s")
			w.want("default/cluster-authenticated opaque\nauthz default/cluster-authenticated meshTLS:{identities:{suffixes:[{}]}} from cluster")
		}},
		"7.2 a policy turns to another target": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("a", "}\nspec: {}"), serverOn("s", "80", opaque), serverOn("t", "81", opaque), policyDoc("p", "group: policy.linkerd.io, kind: Server, name: s", ""))
			s, u := c.watch("ns:a", 80), c.watch("ns:a", 81)
			const allowed = " opaque\nauthz authorizationpolicy/p unauthenticated from all"
			s.want(server("s") + allowed)
			u.want(server("t") + " opaque")
			c.apply(policyDoc("p", "group: policy.linkerd.io, kind: server, name: t", ""))
			s.want(server("s") + " opaque")
			u.want(server("t") + allowed)
			c.apply(policyDoc("p", "group: CORE, kind: namespace, name: elsewhere", "")) // the name is a matter of admission
			s.want(server("s") + allowed)
			u.quiet()
			c.apply(policyDoc("p", "group: policy.linkerd.io, kind: Server, name: T", "")) // Servers are told apart by case
			s.want(server("s") + " opaque")
			u.want(server("t") + " opaque")
		}},
		"7.1 ServerAuthorizations select by name, by label, or all": {run: func(t *testing.T, c *cluster) {
			saz := func(server string) string {
				return "kind: ServerAuthorization\nmetadata: {namespace: ns, name: z}\nspec: {server: {" + server + "}, client: {unauthenticated: true, networks: [{cidr: '::/0'}]}}"
			}
			c.apply(pod("a", "}\nspec: {}"), serverOn("s", "80", opaque), strings.Replace(serverOn("t", "81", opaque), "name: t", "name: t, labels: {team: b}", 1), saz("name: s"))
			s, u := c.watch("ns:a", 80), c.watch("ns:a", 81)
			const allowed = " opaque\nauthz serverauthorization/z unauthenticated from ::/0"
			s.want(server("s") + allowed)
			u.want(server("t") + " opaque")
			c.apply(saz("selector: {matchLabels: {team: b}}"))
			s.want(server("s") + " opaque")
			u.want(server("t") + allowed)
			c.apply(saz("selector: {}"))
			s.want(server("s") + allowed)
			u.quiet()
			c.apply(saz("name: s, selector: {matchLabels: {team: b}}")) // the name counts
			s.quiet()
			u.want(server("t") + " opaque")
			c.remove("ServerAuthorization/ns/z")
			s.want(server("s") + " opaque")
			u.quiet()
		}},
		"8.1 a route of two Servers that one has accepted": {run: func(t *testing.T, c *cluster) {
			both := strings.Replace(metricsRoute, "name: linkerd-admin}", "name: linkerd-admin}, {group: policy.linkerd.io, kind: Server, name: other}", 1)
			c.apply(pod("pause", "}\nspec: {}"), serverAdmin, serverOn("other", "80", ", proxyProtocol: HTTP/2"), both+acceptedByAdmin)
			admin, other := c.watch("ns:pause", 4191), c.watch("ns:pause", 80)
			admin.want(adminServer + metricsRouted)
			other.want(server("other") + " http2" + defaultRoute)
			c.apply(both + fmt.Sprintf(acceptedBy, "other"))
			admin.want(adminServer + defaultRoute)
			other.want(server("other") + " http2" + metricsRouted)
			c.apply(both + acceptedByAdmin + strings.Replace(strings.TrimPrefix(fmt.Sprintf(acceptedBy, "other"), "\nstatus:\n  parents:\n"), `"True"`, `"False"`, 1))
			admin.want(adminServer + metricsRouted)
			other.want(server("other") + " http2" + defaultRoute)
		}},
		"8.3 routes of one name in both groups": {run: func(t *testing.T, c *cluster) {
			gateway := strings.Replace(metricsRoute, "policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1", 1)
			c.apply(pod("pause", "}\nspec: {}"), serverAdmin, metricsRoute+acceptedByAdmin, gateway+acceptedByAdmin,
				policyDoc("for-policy", "group: policy.linkerd.io, kind: HTTPRoute, name: metrics-route", ""),
				policyDoc("for-gateway", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: metrics-route", "{kind: ServiceAccount, name: x}"),
				policyDoc("for-grpc", "group: gateway.networking.k8s.io, kind: GRPCRoute, name: metrics-route", ""))
			w := c.watch("ns:pause", 4191)
			ofPolicy := metricsRouted + "\n  authz authorizationpolicy/for-policy unauthenticated from all"
			ofGateway := strings.Replace(metricsRouted, "policy.linkerd.io", "gateway.networking.k8s.io", 1) +
				"\n  authz authorizationpolicy/for-gateway meshTLS:{identities:{identities:[{name:x.ns.serviceaccount.identity.linkerd.cluster.local}]}} from all"
			w.want(adminServer + ofPolicy + ofGateway)
			c.remove("HTTPRoute/ns/metrics-route")
			w.want(adminServer + ofGateway)
			c.remove("GatewayHTTPRoute/ns/metrics-route")
			w.want(adminServer + defaultRoute)
		}},
		"8.5 filters of a route": {run: func(t *testing.T, c *cluster) {
			filtered := func(route, filters string) string {
				return strings.Replace(route, "method: GET}]", "method: GET}], filters: ["+filters+"]", 1) + acceptedByAdmin
			}
			gateway := strings.Replace(metricsRoute, "policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1", 1)
			routed := adminServer + strings.Replace(metricsRouted, "policy.linkerd.io", "gateway.networking.k8s.io", 1)
			c.apply(pod("pause", "}\nspec: {}"), serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminServer + defaultRoute)
			c.apply(filtered(gateway, "{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}, {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}, {type: RequestHeaderModifier, requestHeaderModifier: {remove: [A]}}"))
			w.want(routed + " filters redirect:{scheme:{registered:HTTPS} status:301}; request_header_modifier:{add:{} set:{} remove:[a]}")
			// The content decides in the one group, the type in the other.
			const both = "requestHeaderModifier: {remove: [b]}, requestRedirect: {}"
			c.apply(filtered(gateway, "{type: RequestRedirect, "+both+"}"))
			w.want(routed + " filters request_header_modifier:{add:{} set:{} remove:[b]}")
			c.apply(filtered(gateway, "{type: ResponseHeaderModifier, responseHeaderModifier: {remove: ['(']}}"))
			w.quiet() // not to be converted, though it would not be sent
			c.remove("GatewayHTTPRoute/ns/metrics-route")
			w.want(adminServer + defaultRoute)
			c.apply(filtered(metricsRoute, "{type: RequestRedirect, "+both+"}"))
			w.want(adminServer + metricsRouted + " filters redirect:{status:200}")
		}},
		"8.4 a broken version of a GRPCRoute leaves the last": {run: func(t *testing.T, c *cluster) {
			grpc := func(rule string) string {
				return "kind: GRPCRoute\nmetadata: {namespace: ns, name: g}\nspec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [" + rule + "]}" + acceptedByAdmin
			}
			c.apply(pod("pause", "}\nspec: {}"), strings.Replace(serverAdmin, "HTTP/1", "gRPC", 1), grpc("{matches: [{method: {service: s}}]}"))
			w := c.watch("ns:pause", 4191)
			const routed = "policy.linkerd.io server/linkerd-admin grpc\nroute resource:{group:gateway.networking.k8s.io kind:GRPCRoute name:g}\n  rule rpc:{service:s}"
			w.want(routed)
			for _, rule := range []string{
				"{matches: [{method: {type: RegularExpression, service: s}}]}", "{matches: [{headers: [{name: '', value: a}]}]}",
				"{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: a}}}]}", "{filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]}",
				"{filters: [{type: RequestHeaderModifier}]}", "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: ['(']}}]}",
				"{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: ['(']}}]}",
			} {
				c.apply(grpc(rule))
				w.quiet()
			}
			c.apply(grpc("{matches: [{method: {service: t, method: m}}]}"))
			w.want(strings.Replace(routed, "service:s", "service:t method:m", 1))
		}},
		"9 a rate limit is refused, accepted, and turns to another Server": {run: func(t *testing.T, c *cluster) {
			limit := func(server, status string) string {
				return "kind: HTTPLocalRateLimitPolicy\nmetadata: {namespace: ns, name: l}\nspec: {targetRef: {group: Policy.linkerd.io, kind: server, name: " + server + "}, total: {requestsPerSecond: 1}, overrides: [{requestsPerSecond: 2, clientRefs: []}]}\nstatus: {targetRef: {name: " + server + "}, conditions: [{type: Other, status: 'True'}, {type: Accepted, status: '" + status + "'}]}"
			}
			c.apply(pod("a", "}\nspec: {}"), serverOn("s", "80", ", proxyProtocol: HTTP/2"), serverOn("t", "81", ""), limit("s", "False"))
			s, u := c.watch("ns:a", 80), c.watch("ns:a", 81)
			const limited = "\nlimit metadata:{resource:{group:policy.linkerd.io kind:HTTPLocalRateLimitPolicy name:l}} total:{requestsPerSecond:1} overrides:[{limit:{requestsPerSecond:2} clients:{}}]"
			s.want(server("s") + " http2" + defaultRoute)
			u.want(server("t") + " detect 10s" + defaultRoute)
			c.apply(limit("s", "True"))
			s.want(server("s") + " http2" + defaultRoute + limited)
			c.apply(limit("t", "True"))
			s.want(server("s") + " http2" + defaultRoute)
			u.want(server("t") + " detect 10s" + defaultRoute + limited)
			c.apply(limit("t", "Unknown"))
			u.want(server("t") + " detect 10s" + defaultRoute)
			s.quiet()
		}},
	})
}
