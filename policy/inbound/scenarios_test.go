package inbound

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
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

// scenario is a row whose name begins with the rules that it holds.
type scenario struct {
	config func(*Config)
	run    func(t *testing.T, c *cluster)
}

func run(t *testing.T, rows map[string]scenario) {
	t.Helper()
	for name, row := range rows {
		rulebook.Run(t, name, func(t *testing.T) {
			config := defaultConfig()
			if row.config != nil {
				row.config(&config)
			}
			bubble(t, config, row.run)
		})
	}
}

// Which policy a port has: defaults, Servers, probes, and the life of a stream.
func TestPorts(t *testing.T) {
	run(t, map[string]scenario{
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
				`{"ns":"x","pod":"y"} z`, `{"ns":"x","external_workload":{}}`, `{"ns":"x","pod":"y","ns":"x"}`, `{"ns":"x","pod":{}}`,
			} {
				want := "InvalidArgument Invalid workload: " + token
				if got := c.get(token, 1); got != want {
					t.Errorf("GetPort: %s, want %s", got, want)
				}
				if got := c.watch(token, 1).End(); got != strings.TrimSpace(want) {
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
			for _, token := range []string{`{"ns":"ns","pod":"pause","external_workload":"no"}`, `{"ns":"ns","pod":"pause","external_workload":1,"pod":{}}`, `{"external_workload":"wl","ns":"ns","pod":"no"}`} {
				if got := c.get(token, 1); strings.HasPrefix(got, "NotFound") {
					t.Errorf("the first kind counts: %s: %s", token, got)
				}
			}
		}},
		"P74 bad ports": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			for _, port := range []uint32{0, 65536, 70000} {
				want := fmt.Sprintf("InvalidArgument Invalid port: %d", port)
				if got := c.watch("ns:pause", port).End(); got != want {
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
				if got := c.watch(token, 4191).End(); got != "NotFound unknown server" {
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
				{"all-unauthenticated", "unauthenticated from all"},
			} {
				c.apply(strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: "+row.access+"}", 1))
				w.want(adminServer + "\nauthz default/" + row.access + " " + row.authz + probeRoutes)
			}
			c.apply(strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: deny}", 1))
			w.want(adminDefault)
			for access, problems := range map[string]int{"bogus": 1, "''": 0} {
				c.apply(strings.Replace(serverAdmin, "HTTP/1}", "HTTP/1, accessPolicy: "+access+"}", 1))
				w.quiet()
				if wrong := c.objects.Wrong("ns/linkerd-admin", "spec.accessPolicy", "as if there were none"); len(wrong) != problems {
					t.Errorf("accessPolicy %s: problems %q", access, c.objects.Wrong())
				}
			}
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
		"B29 P86 what is wrong with a Pod is said once": {run: func(t *testing.T, c *cluster) {
			doc := annotated("pause", "config.linkerd.io/opaque-ports: '80,http', config.linkerd.io/default-inbound-policy: bogus, config.linkerd.io/proxy-require-identity-inbound-ports: '90-80'")
			probed := strings.Replace(doc, "spec: {}", "spec: {containers: [{name: c, livenessProbe: {httpGet: {path: 'a:b', port: 80}}}]}", 1)
			for i, row := range []struct {
				doc      string
				problems int
			}{
				{doc, 3}, {doc + "\nstatus: {phase: Running}", 3}, {strings.Replace(doc, "app: pause", "app: other", 1), 3},
				{annotated("pause", ""), 0}, {probed, 4},
			} {
				c.apply(row.doc)
				if wrong := c.objects.Wrong("Pod ns/pause", "as if there were none"); len(wrong) != row.problems {
					t.Errorf("step %d: want %d problems: %q", i, row.problems, c.objects.Wrong())
				}
			}
			for _, text := range []string{
				"opaque-ports]: ports", "default-inbound-policy]: policy", "proxy-require-identity-inbound-ports]: ports", "spec.containers[c]: probe: path",
			} {
				if len(c.objects.Wrong(text)) != 1 {
					t.Errorf("nothing has %q: %q", text, c.objects.Wrong())
				}
			}
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
		"P131 the Pod goes": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			w.want(podDefault)
			c.remove("Pod/ns/pause")
			w.quiet()
			if got := w.End(); got != "OK" {
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
			delete(c.objects.Born, "Pod/ns/pause")
			c.apply(podPause)
			w.quiet()
			if got := w.End(); got != "OK" {
				t.Errorf("ended %q, want OK: an old stream is for the old Pod", got)
			}
			c.watch("ns:pause", 4191).want(podDefault)
		}},
		"P131 the Pod leaves the mesh": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			c.apply(strings.Replace(podPause, ", linkerd.io/control-plane-ns: linkerd", "", 1))
			if got := w.End(); got != "OK" {
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
			w.Take()
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
		"versions of a Server are not mixed": {run: func(t *testing.T, c *cluster) {
			c.apply(pod("a", "}\nspec: {}"), pod("b", "}\nspec: {}"), serverOn("s", "80", ", proxyProtocol: opaque"))
			a := c.watch("ns:a", 80)
			a.want("policy.linkerd.io server/s opaque")
			// What was there before knows the old version until a new stream on b
			// needs the new one: none has the one's selector with the other's access.
			c.put(strings.Replace(serverOn("s", "80", ", proxyProtocol: opaque, accessPolicy: audit"), "{}", "{matchLabels: {app: b}}", 1))
			b := c.open("ns:b", 80)
			got := c.get("ns:b", 80)
			synctest.Wait()
			if want := "policy.linkerd.io server/s opaque\nauthz default/audit unauthenticated from all"; got != want {
				t.Errorf("GetPort: %s, want %s", got, want)
			}
			b.want("policy.linkerd.io server/s opaque\nauthz default/audit unauthenticated from all")
			a.want("default/all-unauthenticated detect 10s\nauthz default/all-unauthenticated unauthenticated from all" + defaultRoute)
		}},
		"P313 the server stops": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause)
			w := c.watch("ns:pause", 4191)
			close(c.stopping)
			c.settle()
			if got := w.End(); got != "OK" {
				t.Errorf("ended %q, want OK", got)
			}
			c.stopping = make(chan struct{})
		}},
	})
}
