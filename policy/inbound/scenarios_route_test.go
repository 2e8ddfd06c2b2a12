package inbound

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Routes that are attached to Servers.
func TestRoutes(t *testing.T) {
	run(t, map[string]scenario{
		"P108 P109 P110 P111 a route": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply(metricsRoute)
			w.quiet() // P113
			c.apply(metricsRoute + acceptedByAdmin)
			w.want(adminServer + metricsRouted)
			c.apply(allNets, policyDoc("p", "group: policy.linkerd.io, kind: HTTPRoute, name: metrics-route", byAllNets))
			w.want(adminServer + metricsRouted + "\n  authz authorizationpolicy/p unauthenticated from all")
			c.apply(policyDoc("p", "group: policy.linkerd.io, kind: HttpRoute, name: Metrics-Route", byAllNets))
			w.quiet() // P110
			c.apply(policyDoc("p", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: metrics-route", byAllNets))
			w.want(adminServer + metricsRouted)
			c.remove("HTTPRoute/ns/metrics-route")
			w.want(adminDefault)
		}},
		"P11 B70 a policy for a gateway HTTPRoute": {run: func(t *testing.T, c *cluster) {
			gateway := strings.Replace(metricsRoute, "policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1", 1)
			c.apply(podPause, serverAdmin, gateway+acceptedByAdmin, policyDoc("p", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: metrics-route", ""))
			c.watch("ns:pause", 4191).want(adminServer + strings.Replace(metricsRouted, "policy.linkerd.io", "gateway.networking.k8s.io", 1) + "\n  authz authorizationpolicy/p unauthenticated from all")
		}},
		"P112 routes by age": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			for _, name := range []string{"d", "a", "c", "b"} {
				c.apply(strings.Replace(metricsRoute, "metrics-route", name, 1) + acceptedByAdmin)
			}
			names := func() (names string) {
				for _, line := range strings.Split(c.get("ns:pause", 4191), "\n") {
					if _, name, ok := strings.Cut(line, "kind:HTTPRoute name:"); ok {
						names += strings.TrimSuffix(name, "}")
					}
				}
				return names
			}
			if got := names(); got != "dacb" {
				t.Errorf("order %s, want dacb", got)
			}
			c.remove("HTTPRoute/ns/c")
			if got := names(); got != "dab" {
				t.Errorf("order %s, want dab", got)
			}
		}},
		"P112 routes of one second": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			born := "creationTimestamp: '" + time.Unix(1000, 0).UTC().Format(time.RFC3339) + "', "
			for _, row := range []struct{ version, name string }{{"policy.linkerd.io/v1beta3", "b"}, {"policy.linkerd.io/v1beta3", "a"}, {"gateway.networking.k8s.io/v1", "a"}} {
				doc := strings.Replace(strings.Replace(metricsRoute, "metrics-route", row.name, 1), "policy.linkerd.io/v1beta3", row.version, 1)
				c.apply(strings.Replace(doc, "metadata: {", "metadata: {"+born, 1) + acceptedByAdmin)
			}
			rule := "\n  rule path:{exact:/metrics} method:{registered:GET}"
			c.watch("ns:pause", 4191).want(adminServer +
				"\nroute resource:{group:gateway.networking.k8s.io kind:HTTPRoute name:a}" + rule +
				"\nroute resource:{group:policy.linkerd.io kind:HTTPRoute name:a}" + rule +
				"\nroute resource:{group:policy.linkerd.io kind:HTTPRoute name:b}" + rule)
		}},
		"P113 P114 routes that nobody accepted": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			for _, status := range []string{
				"",
				strings.Replace(acceptedByAdmin, "linkerd.io/policy-controller", "example.com/other", 1),
				strings.Replace(acceptedByAdmin, `"True"`, `"False"`, 1),
				strings.Replace(acceptedByAdmin, "Accepted", "ResolvedRefs", 1),
				strings.Replace(acceptedByAdmin, "kind: Server", "kind: server", 1),
				fmt.Sprintf(acceptedBy, "other"),
			} {
				c.apply(metricsRoute + status)
				w.quiet()
			}
		}},
		"P115 references that disqualify a route": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			good := "{group: policy.linkerd.io, kind: Server, name: linkerd-admin}"
			for _, refs := range []string{
				"{group: policy.linkerd.io, kind: Server, name: linkerd-admin, port: 4191}",
				"{group: policy.linkerd.io, kind: Server, name: linkerd-admin, sectionName: a}",
				good + ", {group: policy.linkerd.io, kind: Server, name: other, namespace: far}",
				"{group: policy.linkerd.io, name: linkerd-admin}",
				"{kind: Server, name: linkerd-admin}",
				"{group: core, kind: Server, name: linkerd-admin}",
			} {
				c.apply(strings.Replace(metricsRoute, good, refs, 1) + acceptedByAdmin)
				w.quiet()
			}
			for _, refs := range []string{
				"{group: Policy.linkerd.io, kind: server, name: linkerd-admin, namespace: ns}",
				good + ", {group: policy.linkerd.io, kind: Server, name: ''}, {group: core, kind: Service, name: s, port: 1}, " + good,
			} {
				c.apply(strings.Replace(metricsRoute, good, refs, 1) + acceptedByAdmin)
				w.want(adminServer + metricsRouted)
				c.apply(strings.Replace(metricsRoute, good, "", 1) + acceptedByAdmin)
				w.want(adminDefault)
			}
		}},
		"P116 filters that inbound policy lacks": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			gateway := strings.Replace(metricsRoute, "policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1", 1)
			for _, filter := range []string{
				"{type: RequestMirror, requestMirror: {backendRef: {name: x}}}", "{type: URLRewrite, urlRewrite: {}}",
				"{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}", "{type: RequestHeaderModifier}",
				"{type: CORS}", "{type: RequestRedirect, requestRedirect: {path: {replaceFullPath: a}}}",
			} {
				c.apply(strings.Replace(gateway, "method: GET}]", "method: GET}], filters: ["+filter+"]", 1) + acceptedByAdmin)
				w.quiet()
				if wrong := c.objects.Wrong("ns/metrics-route", "cannot be used", "as if it were not there"); len(wrong) != 1 {
					t.Errorf("%s: problems %q", filter, c.objects.Wrong())
				}
				// Its status is written, once or more.
				c.apply(strings.Replace(gateway, "method: GET}]", "method: GET}], filters: ["+filter+"]", 1), strings.Replace(gateway, "method: GET}]", "method: GET}], filters: ["+filter+"]", 1)+acceptedByAdmin)
				w.quiet()
				if wrong := c.objects.Wrong("ns/metrics-route", "cannot be used"); len(wrong) != 1 {
					t.Errorf("with a status: problems %q", wrong)
				}
			}
		}},
		"P117 P118 a gRPC Server": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, strings.Replace(serverAdmin, "HTTP/1", "gRPC", 1), metricsRoute+acceptedByAdmin)
			const grpc = "policy.linkerd.io server/linkerd-admin grpc"
			w := c.watch("ns:pause", 4191)
			w.want(grpc + "\nroute default:default\n  rule rpc:{}")
			c.apply(`
kind: GRPCRoute
metadata: {namespace: ns, name: g}
spec:
  hostnames: ["*.example.com"]
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}]
  rules:
  - matches: [{method: {service: s, method: m}}, {headers: [{name: A, value: b}]}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: A, value: b}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {}}]
  - {}
`+acceptedByAdmin, policyDoc("p", "group: gateway.networking.k8s.io, kind: GRPCRoute, name: g", ""))
			s := w.Take()
			if got, want := summary(s[len(s)-1]), grpc+`
route resource:{group:gateway.networking.k8s.io kind:GRPCRoute name:g} hosts suffix:{reverse_labels:[com example]}
  rule rpc:{service:s method:m}; rpc:{} headers:[{name:a exact:b}] filters request_header_modifier:{add:{} set:{headers:[{name:a value:b}]}}
  rule 
  authz authorizationpolicy/p unauthenticated from all`; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}},
		"P119 an HTTP Server and a GRPCRoute": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply("kind: GRPCRoute\nmetadata: {namespace: ns, name: g}\nspec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [{}]}" + acceptedByAdmin)
			w.quiet()
		}},
		"8.4 a broken version of a route leaves the last": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, metricsRoute+acceptedByAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminServer + metricsRouted)
			for _, broken := range []string{"metrics", "'relative'"} {
				c.apply(strings.Replace(metricsRoute, "/metrics", broken, 1) + acceptedByAdmin)
				w.quiet()
			}
			c.remove("HTTPRoute/ns/metrics-route")
			w.want(adminDefault)
		}},
	})
}
