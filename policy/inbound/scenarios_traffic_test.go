package inbound

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// client is who sends a request: from where, and with which identity, "" for
// one outside the mesh.
type client struct{ ip, identity string }

// Clients of the scenarios.
var (
	meshed   = client{"10.244.0.5", "client.ns.serviceaccount.identity.linkerd.cluster.local"}
	stranger = client{"10.244.0.6", "client.far.serviceaccount.identity.linkerd.cluster.local"}
	plain    = client{"10.244.0.7", ""}
	outside  = client{"8.8.8.8", ""}
)

// request asks for a path on port 4191 of the Pod, and returns what a proxy
// would do with the answer: "ok", "forbidden" or "not found" (policy-inbound 11).
func (c *cluster) request(from client, path string) string {
	c.t.Helper()
	m, err := c.server.GetPort(c.t.Context(), &pb.PortSpec{Workload: "ns:pause", Port: 4191})
	if err != nil {
		c.t.Fatal(status.Convert(err))
	}
	routes := slices.Concat(m.GetProtocol().GetHttp1().GetRoutes(), m.GetProtocol().GetDetect().GetHttpRoutes())
	// The most specific match: an exact path, then the longest prefix.
	var found *pb.HttpRoute
	best := -1
	for _, r := range routes {
		for _, rule := range r.Rules {
			for _, match := range rule.Matches {
				rank := -1
				switch {
				case match.GetPath().GetExact() == path:
					rank = 1000
				case match.GetPath().GetPrefix() != "" && strings.HasPrefix(path, match.GetPath().GetPrefix()):
					rank = len(match.GetPath().GetPrefix())
				}
				if rank > best {
					best, found = rank, r
				}
			}
		}
	}
	if found == nil {
		return "not found"
	}
	for _, authz := range slices.Concat(found.Authorizations, m.Authorizations) {
		if fromNetworks(authz.Networks, from.ip) && authenticated(authz.Authentication, from.identity) {
			return "ok"
		}
	}
	return "forbidden"
}

func fromNetworks(networks []*pb.Network, ip string) bool {
	has := func(n *net.IPNetwork) bool {
		return netip.PrefixFrom(n.GetIp().Addr(), int(n.GetPrefixLen())).Contains(netip.MustParseAddr(ip))
	}
	return slices.ContainsFunc(networks, func(n *pb.Network) bool { return has(n.Net) && !slices.ContainsFunc(n.Except, has) })
}

func authenticated(authn *pb.Authn, identity string) bool {
	if authn.GetUnauthenticated() != nil {
		return true
	}
	if identity == "" {
		return false
	}
	if authn.GetMeshTLS().GetUnauthenticated() != nil {
		return true
	}
	clients := authn.GetMeshTLS().GetIdentities()
	return slices.ContainsFunc(clients.GetIdentities(), func(i *pb.Identity) bool { return i.Name == identity }) ||
		slices.ContainsFunc(clients.GetSuffixes(), func(s *pb.IdentitySuffix) bool {
			return len(s.Parts) == 0 || strings.HasSuffix(identity, "."+strings.Join(s.Parts, "."))
		})
}

// What proxies do with the answers.
func TestTraffic(t *testing.T) {
	// expect checks which of the four clients may reach /.
	expect := func(t *testing.T, c *cluster, meshedOK, strangerOK, plainOK, outsideOK bool) {
		t.Helper()
		for who, want := range map[client]bool{meshed: meshedOK, stranger: strangerOK, plain: plainOK, outside: outsideOK} {
			if got := c.request(who, "/"); (got == "ok") != want {
				t.Errorf("client %v: %s, want ok: %v", who, got, want)
			}
		}
	}
	const web = "kind: Server\nmetadata: {namespace: ns, name: linkerd-admin}\nspec: {podSelector: {}, port: 4191, proxyProtocol: HTTP/1, accessPolicy: deny}"
	run(t, map[string]scenario{
		"P283 a Server denies, then audits": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web)
			expect(t, c, false, false, false, false)
			c.apply(strings.Replace(web, "deny", "audit", 1))
			expect(t, c, true, true, true, true)
		}},
		"P284 the default of a namespace, as the injector copies it": {run: func(t *testing.T, c *cluster) {
			with := func(policy string) string {
				return strings.Replace(podPause, "name: pause,", "name: pause, annotations: {config.linkerd.io/default-inbound-policy: "+policy+"},", 1)
			}
			c.apply(with("cluster-authenticated"))
			expect(t, c, true, true, false, false)
			c.remove("Pod/ns/pause")
			c.apply(with("audit"))
			expect(t, c, true, true, true, true)
		}},
		"P285 every identity": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web, "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identities: ['*']}",
				policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
			expect(t, c, true, true, false, false)
		}},
		"P286 a policy on one route": {run: func(t *testing.T, c *cluster) {
			other := strings.ReplaceAll(strings.ReplaceAll(metricsRoute, "metrics-route", "other"), "/metrics", "/other")
			c.apply(podPause, web, metricsRoute+acceptedByAdmin, other+acceptedByAdmin, policyDoc("p", "group: policy.linkerd.io, kind: HTTPRoute, name: metrics-route", ""))
			for path, want := range map[string]string{"/metrics": "ok", "/other": "forbidden", "/elsewhere": "not found"} {
				if got := c.request(plain, path); got != want {
					t.Errorf("%s: %s, want %s", path, got, want)
				}
			}
		}},
		"P287 a policy for the namespace": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web)
			expect(t, c, false, false, false, false)
			c.apply(policyDoc("p", "kind: Namespace, name: ns", ""))
			expect(t, c, true, true, true, true)
		}},
		"P288 clients of one namespace": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web, "kind: MeshTLSAuthentication\nmetadata: {namespace: ns, name: m}\nspec: {identityRefs: [{kind: Namespace, name: far}]}",
				policyDoc("p", toAdmin, "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
			expect(t, c, false, true, false, false)
		}},
		"P289 one address": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web, strings.Replace(allNets, "{cidr: 0.0.0.0/0}, {cidr: \"::/0\"}", "{cidr: "+plain.ip+"}", 1), policyDoc("p", toAdmin, byAllNets))
			expect(t, c, false, false, true, false)
		}},
		"P290 both in one policy, either in two": {run: func(t *testing.T, c *cluster) {
			const byClient = "{kind: ServiceAccount, name: client}"
			c.apply(podPause, web, strings.Replace(allNets, "{cidr: 0.0.0.0/0}, {cidr: \"::/0\"}", "{cidr: "+plain.ip+"}", 1), policyDoc("p", toAdmin, byClient+", "+byAllNets))
			expect(t, c, false, false, false, false)
			c.apply(policyDoc("p", toAdmin, byClient), policyDoc("q", toAdmin, byAllNets))
			expect(t, c, true, false, true, false)
		}},
		"P291 nothing is required": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web, policyDoc("p", toAdmin, ""))
			expect(t, c, true, true, true, true)
		}},
		"P299 rate limits": {run: func(t *testing.T, c *cluster) {
			c.apply(podPause, web, "kind: HTTPLocalRateLimitPolicy\nmetadata: {namespace: ns, name: rl}\nspec: {targetRef: {"+toAdmin+"}, total: {requestsPerSecond: 100}, identity: {requestsPerSecond: 50}, overrides: [{requestsPerSecond: 80, clientRefs: [{kind: ServiceAccount, name: client}]}]}\nstatus: {conditions: [{type: Accepted, status: 'True'}]}")
			want := "limit metadata:{resource:{group:policy.linkerd.io kind:HTTPLocalRateLimitPolicy name:rl}} total:{requestsPerSecond:100} identity:{requestsPerSecond:50} overrides:[{limit:{requestsPerSecond:80} clients:{identities:[{name:" + meshed.identity + "}]}}]"
			if got := c.get("ns:pause", 4191); !strings.HasSuffix(got, want) {
				t.Errorf("got\n%s\nwant at the end\n%s", got, want)
			}
		}},
	})
}

// Where the Gateway API is not installed, Linkerd's own routes work.
func TestWithoutGatewayAPI(t *testing.T) {
	rulebook.Covers(t, "P303")
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: []*state.KindInfo{
		&state.Pods.KindInfo, &state.Servers.KindInfo, &state.PolicyHTTPRoutes.KindInfo,
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := newClusterOver(t, st, view.NewGraph(st), defaultConfig())
	for _, doc := range []string{podPause, serverAdmin, metricsRoute + acceptedByAdmin} {
		c.put(doc)
	}
	if got, want := c.get("ns:pause", 4191), adminServer+metricsRouted; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
