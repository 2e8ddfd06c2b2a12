package inbound

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Objects that most scenarios start from.
const (
	podPause = `
kind: Pod
metadata: {namespace: ns, name: pause, labels: {app: pause, linkerd.io/control-plane-ns: linkerd}}
spec:
  containers:
  - name: pause
  - name: linkerd-proxy
    ports: [{name: linkerd-admin, containerPort: 4191}]
    livenessProbe: {httpGet: {path: /live, port: 4191}}
    readinessProbe: {httpGet: {path: /ready, port: 4191}}
`
	serverAdmin = `
kind: Server
metadata: {namespace: ns, name: linkerd-admin}
spec: {podSelector: {}, port: 4191, proxyProtocol: HTTP/1}
`
	allNets = `
kind: NetworkAuthentication
metadata: {namespace: ns, name: all-nets}
spec: {networks: [{cidr: 0.0.0.0/0}, {cidr: "::/0"}]}
`
	metricsRoute = `
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {namespace: ns, name: metrics-route}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}]
  rules: [{matches: [{path: {type: Exact, value: /metrics}, method: GET}]}]
`
	acceptedBy = `
status:
  parents:
  - controllerName: linkerd.io/policy-controller
    parentRef: {group: policy.linkerd.io, kind: Server, namespace: ns, name: %s}
    conditions: [{type: Accepted, status: "True"}]
`
)

// Parts of answers.
const (
	defaultRoute = `
route default:default
  rule path:{prefix:/}`
	probeRoutes = defaultRoute + `
route default:probe
  rule path:{exact:/live} method:{registered:GET}; path:{exact:/ready} method:{registered:GET}
  authz default/probe unauthenticated from all`
	podDefault = ` default/all-unauthenticated detect 10s
authz default/all-unauthenticated unauthenticated from all` + probeRoutes
	adminServer   = `policy.linkerd.io server/linkerd-admin http1`
	adminDefault  = adminServer + probeRoutes
	metricsRouted = `
route resource:{group:policy.linkerd.io kind:HTTPRoute name:metrics-route}
  rule path:{exact:/metrics} method:{registered:GET}`
)

var acceptedByAdmin = fmt.Sprintf(acceptedBy, "linkerd-admin")

func pod(name, more string) string {
	return "kind: Pod\nmetadata: {namespace: ns, name: " + name + ", labels: {app: " + name + ", linkerd.io/control-plane-ns: linkerd}" + more + "\n"
}

// annotated is a Pod without containers.
func annotated(name, annotations string) string {
	return pod(name, ", annotations: {"+annotations+"}}\nspec: {}")
}

func serverOn(name, port, more string) string {
	return "kind: Server\nmetadata: {namespace: ns, name: " + name + "}\nspec: {podSelector: {}, port: " + port + more + "}\n"
}

func policyDoc(name, target, refs string) string {
	return "kind: AuthorizationPolicy\nmetadata: {namespace: ns, name: " + name + "}\nspec: {targetRef: {" + target + "}, requiredAuthenticationRefs: [" + refs + "]}\n"
}

const (
	toAdmin   = "group: policy.linkerd.io, kind: Server, name: linkerd-admin"
	byAllNets = "{group: policy.linkerd.io, kind: NetworkAuthentication, name: all-nets}"
)

// scenarios are the rows of the catalogue, each by its number.
func TestScenarios(t *testing.T) {
	rows := map[string]struct {
		config func(*Config)
		run    func(t *testing.T, c *cluster)
	}{
		"P71 P72 default of a Pod": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			for _, token := range []string{"ns:pause", `{"ns":"ns","pod":"pause"}` + "\n", `{"x":[1],"pod":"pause","ns":"ns"} `} {
				c.watch(token, 4191).want(podDefault)
				if got := c.get(token, 4191); got != strings.TrimSpace(podDefault) {
					t.Errorf("GetPort %s: %s", token, got)
				}
			}
		}},
		"P73 bad tokens": {run: func(t *testing.T, c *cluster) {
			for _, token := range []string{
				"foo", ":x", "x:", "", `{"ns":"x"}`, "{bad", `{"pod":"x"}`, `{"ns":"x","pod":1}`, `{"ns":null,"pod":"x"}`,
				`{"ns":"x","pod":"y"} z`, `{"ns":"x","external_workload":{}}`,
			} {
				want := "InvalidArgument Invalid workload: " + token
				if got := c.get(token, 1); got != want {
					t.Errorf("GetPort: %s, want %s", got, want)
				}
				if got := c.watch(token, 1).end(); got != strings.TrimSpace(want) {
					t.Errorf("WatchPort: %s, want %s", got, want)
				}
			}
		}},
		"P73 odd tokens that are none of the bad": {run: func(t *testing.T, c *cluster) {
			for _, token := range []string{"ns:a:b", ` {"ns":"ns","pod":"pause"}`, `{"ns":"","pod":""}`} {
				if got := c.get(token, 1); got != "NotFound unknown server" {
					t.Errorf("%s: %s", token, got)
				}
			}
			c.apply(pod("pause", "}"), "kind: ExternalWorkload\nmetadata: {namespace: ns, name: wl}\nspec: {meshTLS: {identity: a, serverName: a}}")
			for _, token := range []string{`{"ns":"ns","pod":"pause","external_workload":"no"}`, `{"external_workload":"wl","ns":"ns","pod":"no"}`} {
				if got := c.get(token, 1); strings.HasPrefix(got, "NotFound") {
					t.Errorf("the first kind counts: %s: %s", token, got)
				}
			}
		}},
		"P74 bad ports": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			for _, port := range []uint32{0, 65536, 70000} {
				want := fmt.Sprintf("InvalidArgument Invalid port: %d", port)
				if got := c.watch("ns:pause", port).end(); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got := c.get("ns:nobody", port); got != want {
					t.Errorf("the port is checked before the workload: %s", got)
				}
			}
		}},
		"P75 unknown": {run: func(t *testing.T, c *cluster) {
			c.apply("kind: Pod\nmetadata: {namespace: ns, name: plain}\nspec: {}")
			for _, token := range []string{"ns:nobody", "ns:plain", "other:plain"} {
				if got := c.watch(token, 4191).end(); got != "NotFound unknown server" {
					t.Errorf("%s: %s", token, got)
				}
			}
		}},
		"P76 P77 P78 a Server comes, is authorized, and goes": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			w.want(podDefault)
			c.apply(serverAdmin)
			w.want(adminDefault)
			c.apply("kind: ServerAuthorization\nmetadata: {namespace: ns, name: all-admin}\nspec: {server: {name: linkerd-admin}, client: {unauthenticated: true}}")
			w.want(adminServer + "\nauthz serverauthorization/all-admin unauthenticated from cluster" + probeRoutes)
			c.remove("Server/ns/linkerd-admin")
			w.want(podDefault)
		}},
		"P79 policy with a network": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply(allNets, policyDoc("all-admin", toAdmin, byAllNets))
			w.want(adminServer + "\nauthz authorizationpolicy/all-admin unauthenticated from all" + probeRoutes)
		}},
		"P80 the oldest Server wins": {run: func(t *testing.T, c *cluster) {
			c.apply(serverOn("linkerd-admin-1", "4191", ""), serverOn("linkerd-admin-0", "4191", ""), podPause)
			w := c.watch("ns:pause", 4191)
			w.want("policy.linkerd.io server/linkerd-admin-1 detect 10s" + probeRoutes)
			c.remove("Server/ns/linkerd-admin-1")
			w.want("policy.linkerd.io server/linkerd-admin-0 detect 10s" + probeRoutes)
		}},
		"P81 then the first by name": {run: func(t *testing.T, c *cluster) {
			for _, name := range []string{"b", "a", "c"} {
				c.apply("kind: Server\nmetadata: {namespace: ns, name: " + name + ", creationTimestamp: '2026-01-01T00:00:00Z'}\nspec: {podSelector: {}, port: 4191, proxyProtocol: opaque}")
			}
			c.apply(podPause)
			c.watch("ns:pause", 4191).want("policy.linkerd.io server/a opaque")
		}},
		"P82 P83 access policies": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			for _, row := range []struct{ access, authz string }{
				{"audit", "unauthenticated from all"},
				{"all-authenticated", "meshTLS:{identities:{suffixes:[{}]}} from all"},
				{"cluster-authenticated", "meshTLS:{identities:{suffixes:[{}]}} from cluster"},
				{"cluster-unauthenticated", "unauthenticated from cluster"},
			} {
				c.apply(strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: "+row.access+"}", 1))
				w.want(adminServer + "\nauthz default/" + row.access + " " + row.authz + probeRoutes)
			}
			c.apply(strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: deny}", 1))
			w.want(adminDefault)
			c.apply(strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: bogus}", 1))
			w.quiet()
		}},
		"P84 P85 P86 the default policy of a Pod": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("pause", "}\nspec: {}"))
			w := c.watch("ns:pause", 80)
			const unset = "default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute
			w.want(unset)
			for _, row := range []struct{ name, authz string }{
				{"all-authenticated", "meshTLS:{identities:{suffixes:[{}]}} from all"},
				{"cluster-unauthenticated", "unauthenticated from cluster"},
				{"cluster-authenticated", "meshTLS:{identities:{suffixes:[{}]}} from cluster"},
				{"audit", "unauthenticated from all"},
				{"deny", ""},
				{"all-unauthenticated", "unauthenticated from all"},
			} {
				c.apply(annotated("pause", "config.linkerd.io/default-inbound-policy: "+row.name))
				want := "default/" + row.name + " detect 10s"
				if row.authz != "" {
					want += "\nauthz default/" + row.name + " " + row.authz
				}
				w.want(want + defaultRoute)
			}
			for _, bad := range []string{"bogus", "' deny'", "Deny"} {
				c.apply(annotated("pause", "config.linkerd.io/default-inbound-policy: "+bad))
				w.quiet()
			}
		}},
		"P84 the configured default": {config: func(c *Config) { c.DefaultPolicy = "deny" }, run: func(t *testing.T, c *cluster) {
			c.apply(pod("pause", "}\nspec: {}"), annotated("bogus", "config.linkerd.io/default-inbound-policy: bogus"))
			for _, token := range []string{"ns:pause", "ns:bogus"} {
				c.watch(token, 80).want("default/deny detect 10s" + defaultRoute)
			}
		}},
		"P87 P88 opaque ports": {run: func(t *testing.T, c *cluster) {
			c.apply(annotated("pause", "config.linkerd.io/opaque-ports: '25, 2222-2224,'"))
			const opaque = "default/all-unauthenticated opaque\nauthz default/all-unauthenticated unauthenticated from all"
			const detect = "default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute
			c.watch("ns:pause", 2223).want(opaque)
			c.watch("ns:pause", 2225).want(detect)
			c.watch("ns:pause", 3306).want(detect) // the default opaque ports are no matter of inbound policy
			w := c.watch("ns:pause", 2222)
			w.want(opaque)
			c.apply(serverOn("s", "2222", ", proxyProtocol: unknown"))
			w.want("policy.linkerd.io server/s detect 10s" + defaultRoute)
			c.remove("Server/ns/s")
			w.want(opaque)
			c.apply(annotated("pause", "config.linkerd.io/opaque-ports: '2222,http'"))
			w.want(detect)
		}},
		"P89 ports that require an identity": {run: func(t *testing.T, c *cluster) {
			for name, want := range map[string]string{
				"all-unauthenticated": "all-authenticated", "cluster-unauthenticated": "cluster-authenticated", "all-authenticated": "all-authenticated",
				"cluster-authenticated": "cluster-authenticated", "deny": "deny", "audit": "audit",
			} {
				c.apply(annotated(name, "config.linkerd.io/proxy-require-identity-inbound-ports: '2222', config.linkerd.io/default-inbound-policy: "+name))
				for port, want := range map[uint32]string{2222: want, 2223: name} {
					if got := c.get("ns:"+name, port); !strings.HasPrefix(got, "default/"+want+" ") || strings.Contains(got, "authz") && !strings.Contains(got, "authz default/"+want+" ") {
						t.Errorf("%s, port %d: %s, want %s", name, port, got, want)
					}
				}
			}
			c.apply(serverOn("s", "2222", ", proxyProtocol: opaque, accessPolicy: all-unauthenticated"))
			if got := c.get("ns:all-unauthenticated", 2222); !strings.Contains(got, "authz default/all-unauthenticated") {
				t.Errorf("with a Server: %s", got)
			}
		}},
		"P90 P91 P92 P93 P94 named ports": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("pause", `}
spec:
  containers:
  - {name: a, ports: [{name: admin, containerPort: 8080}, {name: admin, containerPort: 53, protocol: UDP}, {name: Admin, containerPort: 70}]}
  - {name: b, ports: [{name: admin, containerPort: 9090, protocol: tcp}, {containerPort: 8081}]}
  initContainers:
  - {name: c, ports: [{name: admin, containerPort: 9191, protocol: TCP}]}`))
			c.apply(serverOn("named", "admin", ", proxyProtocol: opaque"), serverOn("text", `"8081"`, ", proxyProtocol: opaque"), serverOn("missing", "other", ""))
			owned := map[uint32]bool{8080: true, 9090: true, 9191: true, 53: false, 70: false, 8081: false}
			for port, want := range owned {
				if got := strings.HasPrefix(c.get("ns:pause", port), "policy.linkerd.io server/named opaque"); got != want {
					t.Errorf("port %d owned: %v, want %v", port, got, want)
				}
			}
		}},
		"P95 a numeric port needs no container": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("pause", "}\nspec: {}"), serverOn("s", "7777", ", proxyProtocol: opaque"))
			c.watch("ns:pause", 7777).want("policy.linkerd.io server/s opaque")
		}},
		"P96 a selector moves away": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin)
			w := c.watch("ns:pause", 4191)
			w.want(adminDefault)
			c.apply(strings.Replace(strings.Replace(serverAdmin, "{}", "{matchLabels: {app: other}}", 1), "HTTP/1", "HTTP/2", 1))
			w.want(podDefault)
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
		"P108 P109 P111 a route": {run: func(t *testing.T, c *cluster) {
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
			for i, filter := range []string{
				"{type: RequestMirror, requestMirror: {backendRef: {name: x}}}", "{type: URLRewrite, urlRewrite: {}}",
				"{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}", "{type: RequestHeaderModifier}",
				"{type: CORS}", "{type: RequestRedirect, requestRedirect: {path: {replaceFullPath: a}}}",
			} {
				c.apply(strings.Replace(gateway, "method: GET}]", "method: GET}], filters: ["+filter+"]", 1) + acceptedByAdmin)
				w.quiet()
				if lines := c.log.lines("ns/metrics-route", "cannot be used"); len(lines) != i+1 {
					t.Errorf("%d warnings after %d versions: %q", len(lines), i+1, lines)
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
			s := w.take()
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
		"P120 probes": {config: func(c *Config) { c.ProbeNetworks, c.DefaultPolicy = "10.0.0.1/24", "cluster-unauthenticated" }, run: func(t *testing.T, c *cluster) {
			c.apply(pod("pause", `}
spec:
  containers:
  - name: container-1
    livenessProbe: {httpGet: {path: /liveness-container-1, port: 5432}}
    readinessProbe: {httpGet: {path: /ready-container-1, port: 5432}}`))
			const probes = defaultRoute + `
route default:probe
  rule path:{exact:/liveness-container-1} method:{registered:GET}; path:{exact:/ready-container-1} method:{registered:GET}
  authz default/probe unauthenticated from 10.0.0.1/24`
			w := c.watch("ns:pause", 5432)
			w.want("default/cluster-unauthenticated detect 10s\nauthz default/cluster-unauthenticated unauthenticated from cluster" + probes)
			c.apply(serverOn("linkerd-admin", "5432", ""))
			w.want("policy.linkerd.io server/linkerd-admin detect 10s" + probes)
			c.apply(metricsRoute + acceptedByAdmin)
			w.want("policy.linkerd.io server/linkerd-admin detect 10s" + metricsRouted)
		}},
		"P121 P123 ports and paths of probes": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("pause", `}
spec:
  containers:
  - name: a
    ports: [{name: http, containerPort: 8080}, {name: udp, containerPort: 8080, protocol: UDP}]
    livenessProbe: {httpGet: {path: "/z?x=1", port: HTTP}}
    readinessProbe: {httpGet: {path: "http://h/abs", port: 8080}}
    startupProbe: {httpGet: {port: 8080}}
  - name: b
    livenessProbe: {httpGet: {path: /elsewhere, port: http}}
    readinessProbe: {httpGet: {path: /none, port: 0}}
    startupProbe: {tcpSocket: {port: 8080}}
  - name: c
    ports: [{name: udp, containerPort: 8080, protocol: UDP}]
    livenessProbe: {httpGet: {path: /udp, port: udp}}
    readinessProbe: {httpGet: {path: "/%zz", port: 8080}}
    startupProbe: {httpGet: {path: /z, port: 8080}}
  initContainers:
  - name: d
    readinessProbe: {httpGet: {path: "/init#f", port: 8080}}`))
			c.watch("ns:pause", 8080).want("default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute + `
route default:probe
  rule path:{exact:/} method:{registered:GET}; path:{exact:/abs} method:{registered:GET}; path:{exact:/init} method:{registered:GET}; path:{exact:/z} method:{registered:GET}
  authz default/probe unauthenticated from all`)
		}},
		"P122 no probe networks": {config: func(c *Config) { c.ProbeNetworks = "" }, run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			c.watch("ns:pause", 4191).want(strings.Replace(podDefault, probeRoutes, defaultRoute, 1))
		}},
		"P124 deny with probes": {config: func(c *Config) { c.DefaultPolicy = "deny" }, run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			c.watch("ns:pause", 4191).want("default/deny detect 10s" + probeRoutes)
		}},
		"B41 probe with a query under all-authenticated": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("web-1", `, annotations: {config.linkerd.io/default-inbound-policy: all-authenticated}}
spec:
  containers: [{name: app, ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: {path: "/ready?full=1", port: http}}}]`))
			const probe = defaultRoute + "\nroute default:probe\n  rule path:{exact:/ready} method:{registered:GET}\n  authz default/probe unauthenticated from all"
			w := c.watch("ns:web-1", 8080)
			w.want("default/all-authenticated detect 10s\nauthz default/all-authenticated meshTLS:{identities:{suffixes:[{}]}} from all" + probe)
			c.apply(serverOn("linkerd-admin", "http", ", proxyProtocol: HTTP/1"))
			w.want(adminServer + probe)
			c.apply(metricsRoute + acceptedByAdmin)
			w.want(adminServer + metricsRouted)
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
			if got := w.end(); got != "OK" {
				t.Errorf("ended %q, want OK", got)
			}
		}},
		"P131 the Pod goes": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			w.want(podDefault)
			c.remove("Pod/ns/pause")
			w.quiet()
			if got := w.end(); got != "OK" {
				t.Errorf("ended %q, want OK", got)
			}
			if got := c.get("ns:pause", 4191); got != "NotFound unknown server" {
				t.Errorf("after the end: %s", got)
			}
		}},
		"P131 the Pod is replaced at once": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			w.want(podDefault)
			delete(c.born, "pod/ns/pause")
			c.apply(podPause)
			w.quiet()
			if got := w.end(); got != "OK" {
				t.Errorf("ended %q, want OK: an old stream is for the old Pod", got)
			}
			c.watch("ns:pause", 4191).want(podDefault)
		}},
		"P131 the Pod leaves the mesh": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			c.apply(strings.Replace(podPause, ", linkerd.io/control-plane-ns: linkerd", "", 1))
			if got := w.end(); got != "OK" {
				t.Errorf("ended %q, want OK", got)
			}
		}},
		"P132 policies outlive what they are for": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, serverAdmin, metricsRoute+acceptedByAdmin, policyDoc("p", toAdmin, ""), policyDoc("q", "group: policy.linkerd.io, kind: HTTPRoute, name: metrics-route", ""))
			want := c.get("ns:pause", 4191)
			c.remove("Server/ns/linkerd-admin", "HTTPRoute/ns/metrics-route", "Pod/ns/pause")
			c.apply(serverAdmin, metricsRoute+acceptedByAdmin, podPause)
			if got := c.get("ns:pause", 4191); got != want || strings.Count(got, "authz") != 2 {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}},
		"P133 B32 nothing new": {run: func(t *testing.T, c *cluster) {
			docs := []string{podPause, serverAdmin, allNets, metricsRoute + acceptedByAdmin, policyDoc("p", toAdmin, byAllNets),
				"kind: ServerAuthorization\nmetadata: {namespace: ns, name: saz}\nspec: {server: {name: linkerd-admin}, client: {unauthenticated: true}}",
				"kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: [a.b]}"}
			c.apply(docs...)
			w := c.watch("ns:pause", 4191)
			w.take()
			c.apply(docs...)
			w.quiet()
			c.apply(strings.Replace(podPause, "\nspec:", "\nstatus: {phase: Running, podIP: 10.0.0.1}\nspec:", 1),
				strings.Replace(serverAdmin, "name: linkerd-admin", "name: linkerd-admin, labels: {a: b}", 1),
				metricsRoute+acceptedByAdmin+"  - {controllerName: example.com/x, parentRef: {name: other}}\n",
				serverOn("other", "80", ""), strings.Replace(serverAdmin, "namespace: ns", "namespace: far", 1))
			w.quiet()
		}},
		"B33 Servers of other namespaces": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, "kind: Server\nmetadata: {namespace: other, name: s}\nspec: {podSelector: {matchLabels: {app: pause}}, port: 4191, proxyProtocol: opaque}",
				"kind: Server\nmetadata: {namespace: other, name: t}\nspec: {externalWorkloadSelector: {}, port: 4191, proxyProtocol: opaque}")
			c.watch("ns:pause", 4191).want(podDefault)
		}},
		"P134 B45 selectors": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("web-1", "}\nspec: {}"))
			for i, row := range []struct {
				selector string
				selects  bool
			}{
				{"{}", true},
				{"{matchLabels: {app: web-1}}", true},
				{"{matchLabels: {app: web-2}}", false},
				{"{matchExpressions: [{key: app, operator: In, values: [web-1, x]}]}", true},
				{"{matchExpressions: [{key: app, operator: In}]}", false},
				{"{matchExpressions: [{key: app, operator: NotIn, values: [web-1]}]}", false},
				{"{matchExpressions: [{key: app, operator: NotIn}]}", false},
				{"{matchExpressions: [{key: missing, operator: NotIn, values: [web-1]}]}", true},
				{"{matchExpressions: [{key: app, operator: Exists}]}", true},
				{"{matchExpressions: [{key: app, operator: Exists, values: []}]}", false},
				{"{matchExpressions: [{key: app, operator: Exists, values: [a]}]}", false},
				{"{matchExpressions: [{key: app, operator: DoesNotExist}]}", false},
				{"{matchExpressions: [{key: missing, operator: DoesNotExist}]}", true},
				{"{matchExpressions: [{key: missing, operator: DoesNotExist, values: []}]}", false},
				{"{matchLabels: {app: web-1}, matchExpressions: [{key: app, operator: DoesNotExist}]}", false},
				{"{matchLabels: {app: web-1}, matchExpressions: [{key: app, operator: Exists}]}", true},
			} {
				port := fmt.Sprint(1000 + i)
				c.apply(strings.Replace(serverOn("s"+port, port, ", proxyProtocol: opaque"), "{}", row.selector, 1))
				if got := strings.HasPrefix(c.get("ns:web-1", uint32(1000+i)), "policy.linkerd.io server/s"+port); got != row.selects {
					t.Errorf("%s selects: %v, want %v", row.selector, got, row.selects)
				}
			}
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
			before := w.take()
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
			for i, doc := range bad {
				c.apply(doc)
				w.quiet()
				if lines := c.log.lines("cannot be used"); len(lines) != i+1 {
					t.Errorf("%d warnings after %d bad versions:\n%s", len(lines), i+1, doc)
				}
			}
			delete(c.born, "serverauthorization/ns/saz")
			c.apply(saz("")) // another object of that name has no last version
			if got := w.take(); len(got) != 1 || len(got[0].Authorizations) != 2 {
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
			}
			c.apply(policyDoc("p", toAdmin, mesh+", "+byAllNets))
			w.want(adminServer + "\nauthz authorizationpolicy/p meshTLS:{identities:{identities:[{name:a.b}]}} from all" + probeRoutes)
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
		"P313 the server stops": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			close(c.stopping)
			c.settle()
			if got := w.end(); got != "OK" {
				t.Errorf("ended %q, want OK", got)
			}
			c.stopping = make(chan struct{})
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			config := DefaultConfig()
			if row.config != nil {
				row.config(&config)
			}
			bubble(t, config, row.run)
		})
	}
}
