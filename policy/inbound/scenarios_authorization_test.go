package inbound

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// Who is authorized, and how often.
func TestAuthorizations(t *testing.T) {
	run(t, map[string]scenario{
		"P79 policy with a network": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply(allNets, policyDoc("all-admin", toAdmin, byAllNets))
			w.want(adminServer + "\nauthz authorizationpolicy/all-admin unauthenticated from all" + probeRoutes)
		}},
		"P97 ServerAuthorization by label": {run: func(t *testing.T, c *cluster) {
			labelled := strings.Replace(serverAdmin, "name: linkerd-admin", "name: linkerd-admin, labels: {team: a}", 1)
			c.apply(podPause, labelled, "kind: ServerAuthorization\nmetadata: {namespace: ns, name: saz}\nspec: {server: {selector: {matchLabels: {team: a}}}, client: {meshTLS: {unauthenticatedTLS: true}, networks: [{cidr: 10.1.0.0/16, except: [10.1.1.1]}]}}")
			w := c.watch("ns:pause", 4191)
			w.want(adminServer + "\nauthz serverauthorization/saz meshTLS:{unauthenticated} from 10.1.0.0/16 except 10.1.1.1/32" + probeRoutes)
			c.apply(serverAdmin)
			w.want(adminDefault)
		}},
		"P97 ServerAuthorization for every Server": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, "kind: ServerAuthorization\nmetadata: {namespace: ns, name: saz}\nspec: {server: {}, client: {unauthenticated: true, meshTLS: {identities: [a]}}}")
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz serverauthorization/saz unauthenticated from cluster" + probeRoutes)
		}},
		"P98 ServiceAccounts of a ServerAuthorization": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, "kind: ServerAuthorization\nmetadata: {namespace: ns, name: saz}\nspec: {server: {name: linkerd-admin}, client: {meshTLS: {identities: [x.y, '*.z'], serviceAccounts: [{name: sa}, {name: sa, namespace: far}]}}}")
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz serverauthorization/saz meshTLS:{identities:{identities:[{name:x.y} {name:sa.ns.serviceaccount.identity.linkerd.cluster.local} {name:sa.far.serviceaccount.identity.linkerd.cluster.local}] suffixes:[{parts:[z]}]}} from cluster" + probeRoutes)
		}},
		"P99 identities": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: [foo.bar, '*.baz', '*', 'foo.*.bar', 'spiffe://td/x', '*.a.b']}",
				policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:foo.bar} {name:foo.*.bar} {name:spiffe://td/x}] suffixes:[{parts:[baz]} {} {parts:[a b]}]}} from all" + probeRoutes)
		}},
		"P99 identities of references": {config: func(c *Config) { c.TrustDomain, c.ControlPlaneNamespace = "example.com", "l5d" }, run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identityRefs: [{kind: ServiceAccount, name: sa}, {group: core, kind: serviceaccount, name: sa, namespace: far}, {kind: Namespace, name: all, namespace: ignored}]}",
				policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:sa.ns.serviceaccount.identity.l5d.example.com} {name:sa.far.serviceaccount.identity.l5d.example.com}] suffixes:[{parts:[all serviceaccount identity l5d example com]}]}} from all" + probeRoutes)
		}},
		"P100 a ServiceAccount is required": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, allNets, policyDoc("p", toAdmin, "{kind: ServiceAccount, namespace: ns-0, name: foo}, "+byAllNets))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:foo.ns-0.serviceaccount.identity.linkerd.cluster.local}]}} from all" + probeRoutes)
		}},
		"3.3 the name of a ServiceAccount is no pattern": {run: func(t *testing.T, c *cluster) {
			const star = "meshTLS:{identities:{identities:[{name:*.ns.serviceaccount.identity.linkerd.cluster.local}]}}"
			c.apply(podPause, serverAdmin, "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identityRefs: [{kind: ServiceAccount, name: '*'}]}",
				policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"), policyDoc("q", toAdmin, "{kind: ServiceAccount, name: '*'}"))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p " + star + " from all\nauthz authorizationpolicy/q " + star + " from all" + probeRoutes)
		}},
		"P101 a policy for the Namespace": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, serverOn("other", "80", ", proxyProtocol: opaque"), policyDoc("p", "kind: Namespace, name: ns", ""))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p unauthenticated from all" + probeRoutes)
			c.watch("ns:pause", 80).want("policy.linkerd.io server/other opaque\nauthz authorizationpolicy/p unauthenticated from all")
			c.watch("ns:pause", 81).want("default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute)
		}},
		"P102 P103 an authentication comes and goes": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply("kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: [a.b]}")
			w.want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:a.b}]}} from all" + probeRoutes)
			c.remove("MeshTLSAuthentication/ns/m")
			w.want(adminDefault)
		}},
		"7.5 authentications change": {run: func(t *testing.T, c *cluster) {
			const mesh = "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: [a.b]}"
			const net = "kind: NetworkAuthentication\nmetadata: {namespace: ns, name: net}\nspec: {networks: [{cidr: 10.0.0.0/8}]}"
			c.apply(podPause, serverAdmin, mesh, net, policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}, {group: policy.linkerd.io, kind: NetworkAuthentication, name: net}"))
			w := c.watch("ns:pause", 4191)
			allows := func(identity, network string) string {
				return adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:" + identity + "}]}} from " + network + probeRoutes
			}
			w.want(allows("a.b", "10.0.0.0/8"))
			c.apply(strings.Replace(mesh, "a.b", "c.d", 1))
			w.want(allows("c.d", "10.0.0.0/8"))
			c.apply(strings.Replace(net, "10", "11", 1))
			w.want(allows("c.d", "11.0.0.0/8"))
			c.apply(mesh)
			w.want(allows("a.b", "11.0.0.0/8"))
		}},
		"P104 one of two authentications goes": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, allNets, "kind: NetworkAuthentication\nmetadata: {namespace: ns, name: one}\nspec: {networks: [{cidr: 10.0.0.0/8}]}",
				policyDoc("p", toAdmin, byAllNets), policyDoc("q", toAdmin, "{group: policy.linkerd.io, kind: NetworkAuthentication, name: one}"))
			w := c.watch("ns:pause", 4191)
			w.want(adminServer + "\nauthz authorizationpolicy/p unauthenticated from all\nauthz authorizationpolicy/q unauthenticated from 10.0.0.0/8" + probeRoutes)
			c.remove("NetworkAuthentication/ns/all-nets")
			w.want(adminServer + "\nauthz authorizationpolicy/q unauthenticated from 10.0.0.0/8" + probeRoutes)
		}},
		"P105 no authentication is required": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, policyDoc("p", toAdmin, ""))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p unauthenticated from all" + probeRoutes)
		}},
		"P106 authentications of another namespace": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m, namespace: far}, {group: policy.linkerd.io, kind: NetworkAuthentication, name: net, namespace: far}"),
				"kind: MeshTLSAuthentication\nmetadata: {namespace: far, name: m}\nspec: {identities: [a.b]}")
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply("kind: NetworkAuthentication\nmetadata: {namespace: far, name: net}\nspec: {networks: [{cidr: 10.0.0.1}]}")
			w.want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:a.b}]}} from 10.0.0.1/32" + probeRoutes)
			c.remove("NetworkAuthentication/far/net")
			w.want(adminDefault)
		}},
		"P107 host bits": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, strings.Replace(allNets, "0.0.0.0/0", "10.0.0.1/24", 1), policyDoc("p", toAdmin, byAllNets))
			c.watch("ns:pause", 4191).want(adminServer + "\nauthz authorizationpolicy/p unauthenticated from 10.0.0.1/24, ::/0" + probeRoutes)
		}},
		"P125 P126 P127 rate limits": {run: func(t *testing.T, c *cluster) {
			limit := func(name, more string) string {
				return "kind: HTTPLocalRateLimitPolicy\nmetadata: {namespace: ns, name: " + name + "}\nspec: {targetRef: {group: policy.linkerd.io, kind: Server, name: linkerd-admin}, " + more + "}\n"
			}
			const spec = "total: {requestsPerSecond: 1000}, overrides: [{requestsPerSecond: 200, clientRefs: [{kind: ServiceAccount, name: sa-0}, {kind: ServiceAccount, name: sa-0, namespace: far}]}]"
			const accepted = "status: {targetRef: {name: linkerd-admin}, conditions: [{type: Accepted, status: 'True'}]}\n"
			c.apply(podPause, strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: audit}", 1))
			const audited = adminServer + "\nauthz default/audit unauthenticated from all" + probeRoutes
			const limited = "\nlimit metadata:{resource:{group:policy.linkerd.io kind:HTTPLocalRateLimitPolicy name:rl-0}} total:{requestsPerSecond:1000} overrides:[{limit:{requestsPerSecond:200} clients:{identities:[{name:sa-0.ns.serviceaccount.identity.linkerd.cluster.local} {name:sa-0.far.serviceaccount.identity.linkerd.cluster.local}]}}]"
			w := c.watch("ns:pause", 4191)
			w.want(audited)
			c.apply(limit("rl-0", spec))
			w.quiet() // P126
			c.apply(limit("rl-0", spec) + accepted)
			w.want(audited + limited)
			c.apply(limit("rl-1", "identity: {requestsPerSecond: 1}") + accepted)
			w.quiet() // the oldest counts
			c.apply(limit("rl-0", strings.Replace(spec, "ServiceAccount", "Pod", 1)) + accepted)
			w.quiet() // an unusable version leaves the last one
			c.remove("HTTPLocalRateLimitPolicy/ns/rl-0")
			w.want(audited + "\nlimit metadata:{resource:{group:policy.linkerd.io kind:HTTPLocalRateLimitPolicy name:rl-1}} identity:{requestsPerSecond:1}")
			for protocol, wire := range map[string]string{"opaque": "opaque", "TLS": "tls"} {
				c.apply(strings.Replace(serverAdmin, "HTTP/1", protocol, 1)) // P127
				w.want("policy.linkerd.io server/linkerd-admin " + wire)
			}
			c.apply(strings.Replace(serverAdmin, "HTTP/1", "gRPC", 1))
			w.want("policy.linkerd.io server/linkerd-admin grpc\nroute default:default\n  rule rpc:{}")
			c.apply(strings.Replace(serverAdmin, "HTTP/1", "unknown", 1))
			w.want("policy.linkerd.io server/linkerd-admin detect 10s" + probeRoutes + "\nlimit metadata:{resource:{group:policy.linkerd.io kind:HTTPLocalRateLimitPolicy name:rl-1}} identity:{requestsPerSecond:1}")
		}},
		"P128 P129 P130 ExternalWorkloads": {run: func(t *testing.T, c *cluster) {
			workload := func(ports string) string {
				return "kind: ExternalWorkload\nmetadata: {namespace: ns, name: wl, labels: {app: vm}}\nspec: {meshTLS: {identity: a, serverName: a}, ports: [" + ports + "]}"
			}
			c.apply(workload("{name: http, port: 8080}"), serverOn("for-pods", "8080", ""))
			w := c.watch(`{"ns":"ns","external_workload":"wl"}`, 8080)
			const unowned = "default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute
			w.want(unowned)
			c.apply("kind: Server\nmetadata: {namespace: ns, name: linkerd-admin}\nspec: {externalWorkloadSelector: {matchLabels: {app: vm}}, port: http, proxyProtocol: HTTP/1}")
			w.want(adminServer + defaultRoute)
			c.apply(allNets, policyDoc("p", toAdmin, byAllNets))
			w.want(adminServer + "\nauthz authorizationpolicy/p unauthenticated from all" + defaultRoute)
			c.apply(metricsRoute + acceptedByAdmin)
			w.want(adminServer + "\nauthz authorizationpolicy/p unauthenticated from all" + metricsRouted)
			c.apply(workload("{name: http, port: 8080}, {name: http, port: 9090}"))
			w.want(unowned) // one number per name, the last
			c.apply(workload("{name: http, port: 8080, protocol: UDP}"))
			w.quiet()
			c.apply(pod("wl", "}\nspec: {}"))
			w.quiet() // a Pod of the same name is another workload
			c.remove("ExternalWorkload/ns/wl")
			if got := w.End(); got != "OK" {
				t.Errorf("ended %q, want OK", got)
			}
		}},
		"4.2 an ExternalWorkload that was written as v1alpha1 does not count": {run: func(t *testing.T, c *cluster) {
			c.apply("kind: ExternalWorkload\nmetadata: {namespace: ns, name: wl}\nspec: {workloadIPs: [{ip: 192.0.2.1}]}")
			if got := c.get(`{"ns":"ns","external_workload":"wl"}`, 80); got != "NotFound unknown server" || len(c.objects.Wrong("ns/wl", "spec.meshTLS is missing")) != 1 {
				t.Errorf("%s, and %q", got, c.objects.Wrong())
			}
		}},
		"4.2 an ExternalWorkload without an address does not count": {run: func(t *testing.T, c *cluster) {
			workload := func(addresses, port string) string {
				return "kind: ExternalWorkload\nmetadata: {namespace: ns, name: wl}\nspec: {meshTLS: {identity: a, serverName: a}, workloadIPs: [" + addresses + "], ports: [{name: http, port: " + port + "}]}"
			}
			const token = `{"ns":"ns","external_workload":"wl"}`
			c.apply("kind: Server\nmetadata: {namespace: ns, name: s}\nspec: {externalWorkloadSelector: {}, port: http, proxyProtocol: opaque}", workload("{ip: 192.0.2.1}, {}", "80"))
			if got := c.get(token, 80); got != "NotFound unknown server" || len(c.objects.Wrong("ns/wl", "ip is missing", "as if it were not there")) != 1 {
				t.Errorf("%s, and %q", got, c.objects.Wrong())
			}
			c.apply(workload("{ip: 192.0.2.1}", "80") + "\nstatus: {}")
			w := c.watch(token, 80)
			w.want("policy.linkerd.io server/s opaque")
			c.apply(workload("{}", "81"))
			w.quiet()
		}},
		"7.1 7.2 7.3 7.4 unusable versions leave the last": {run: func(t *testing.T, c *cluster) {
			saz := func(client string) string {
				return "kind: ServerAuthorization\nmetadata: {namespace: ns, name: saz}\nspec: {server: {name: linkerd-admin}, client: {" + client + "}}"
			}
			mesh := func(spec string) string {
				return "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {" + spec + "}"
			}
			c.apply(podPause, serverAdmin, saz("unauthenticated: true"), allNets, mesh("identities: [a.b]"),
				policyDoc("p", toAdmin, byAllNets), policyDoc("q", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
			w := c.watch("ns:pause", 4191)
			before := w.Take()
			if len(before) != 1 || len(before[0].Authorizations) != 3 {
				t.Fatalf("%v, want three authorizations", before)
			}
			bad := []string{
				saz(""), saz("meshTLS: {}"), saz("meshTLS: {identities: []}"),
				mesh(""), mesh("identities: []"), mesh("identityRefs: [{kind: Pod, name: x}]"),
				"kind: NetworkAuthentication\nmetadata: {namespace: ns, name: all-nets}\nspec: {networks: []}",
				policyDoc("p", "group: apps, kind: Deployment, name: x", ""),
				policyDoc("p", toAdmin, "{kind: ConfigMap, name: x}"),
			}
			for _, doc := range bad {
				c.apply(doc)
				w.quiet()
				kind, name, _ := strings.Cut(objects.Name(t, doc), "/")
				if wrong := c.objects.Wrong(kind+" "+name+":", "cannot be used", "last valid version stays"); len(wrong) != 1 {
					t.Errorf("problems %q after\n%s", c.objects.Wrong(), doc)
				}
			}
			delete(c.objects.Born, "ServerAuthorization/ns/saz")
			c.apply(saz("")) // another object of that name has no last version
			if got := w.Take(); len(got) != 1 || len(got[0].Authorizations) != 2 {
				t.Errorf("%v, want two authorizations", got)
			}
		}},
		"7.2 contradictions authorize nobody": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, allNets, "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: [a.b]}")
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			const mesh = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"
			for _, refs := range []string{mesh + ", " + mesh, byAllNets + ", " + byAllNets, mesh + ", {kind: ServiceAccount, name: x}", "{kind: ServiceAccount, name: x}, {kind: ServiceAccount, name: x}"} {
				c.apply(policyDoc("p", toAdmin, refs))
				w.quiet()
				if wrong := c.objects.Wrong("ns/p", "requiredAuthenticationRefs[1]", "authorizes nobody"); len(wrong) != 1 {
					t.Errorf("%s: problems %q", refs, c.objects.Wrong())
				}
			}
			c.apply(policyDoc("p", toAdmin, mesh+", "+byAllNets))
			w.want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:a.b}]}} from all" + probeRoutes)
		}},
		"3.4 order of authorizations": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: audit}", 1))
			for _, name := range []string{"b", "a"} {
				c.apply("kind: ServerAuthorization\nmetadata: {namespace: ns, name: "+name+"}\nspec: {server: {name: linkerd-admin}, client: {unauthenticated: true}}",
					policyDoc(name+"2", toAdmin, ""), policyDoc(name+"1", "kind: Namespace, name: ns", ""))
			}
			c.watch("ns:pause", 4191).want(adminServer + `
authz authorizationpolicy/a1 unauthenticated from all
authz authorizationpolicy/a2 unauthenticated from all
authz authorizationpolicy/b1 unauthenticated from all
authz authorizationpolicy/b2 unauthenticated from all
authz serverauthorization/a unauthenticated from cluster
authz serverauthorization/b unauthenticated from cluster
authz default/audit unauthenticated from all` + probeRoutes)
		}},
	})
}
