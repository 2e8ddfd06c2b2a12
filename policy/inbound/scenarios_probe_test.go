package inbound

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Health probes of Pods.
func TestProbes(t *testing.T) {
	run(t, map[string]scenario{
		"P120 probes": {config: func(c *Config) {
			c.ProbeNetworks, c.DefaultPolicy = linkerd.MustParseNetworks("10.0.0.1/24"), "cluster-unauthenticated"
		}, run: func(t *testing.T, c *cluster) {
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
  rule path:{exact:/} method:{registered:GET}; path:{exact:/%25zz} method:{registered:GET}; path:{exact:/abs} method:{registered:GET}; path:{exact:/init} method:{registered:GET}; path:{exact:/z} method:{registered:GET}
  authz default/probe unauthenticated from all`)
		}},
		"P122 no probe networks": {config: func(c *Config) { c.ProbeNetworks = linkerd.Networks{} }, run: func(t *testing.T, c *cluster) {
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
			const note = "Server ns/linkerd-admin: probes need a route that lets them in, now that the Server has routes: /ready"
			noted := func(want string) {
				t.Helper()
				var notes []string
				for _, p := range c.state.Problems().List() {
					if p.Severity == problems.Note {
						notes = append(notes, p.String())
					}
				}
				if got := strings.Join(notes, "\n"); got != want {
					t.Errorf("noted %q, want %q", got, want)
				}
			}
			noted("")
			c.apply(metricsRoute + acceptedByAdmin)
			w.want(adminServer + metricsRouted)
			c.apply(strings.Replace(metricsRoute, "/metrics", "/other", 1) + acceptedByAdmin)
			w.want(adminServer + strings.Replace(metricsRouted, "/metrics", "/other", 1))
			noted(note)
			c.remove("HTTPRoute/ns/metrics-route")
			w.want(adminServer + probe)
			noted("")
			c.apply(metricsRoute + acceptedByAdmin)
			w.want(adminServer + metricsRouted)
			noted(note)
		}},
		"4.1 ports and probes of a Pod change": {run: func(t *testing.T, c *cluster) {
			with := func(port, path string) string {
				return pod("a", "}\nspec: {containers: [{name: c, ports: [{name: http, containerPort: "+port+"}], livenessProbe: {httpGet: {path: "+path+", port: 8080}}}]}")
			}
			c.apply(with("8080", "/old"), serverOn("s", "http", ", proxyProtocol: HTTP/1"))
			w := c.watch("ns:a", 8080)
			owned := w.Take()
			if len(owned) != 1 || !strings.Contains(summary(owned[0]), "server/s http1") || !strings.Contains(summary(owned[0]), "exact:/old") {
				t.Errorf("%v", owned)
			}
			c.apply(with("8080", "/new"))
			if probed := w.Take(); len(probed) != 1 || !strings.Contains(summary(probed[0]), "exact:/new") {
				t.Errorf("%v", probed)
			}
			c.apply(with("9090", "/new"))
			if moved := w.Take(); len(moved) != 1 || !strings.Contains(summary(moved[0]), "default/all-unauthenticated") {
				t.Errorf("%v", moved)
			}
		}},
	})
}
