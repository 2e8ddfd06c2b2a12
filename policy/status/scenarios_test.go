package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

const (
	adminServer = "{kind: Server, metadata: {namespace: ns, name: linkerd-admin}, spec: {podSelector: {}, port: 4191}}"
	mySvc       = "{kind: Service, metadata: {namespace: ns, name: my-svc}, spec: {clusterIP: 10.96.0.10, ports: [{port: 4191}]}}"
	backendSvc  = "{kind: Service, metadata: {namespace: ns, name: backend}, spec: {clusterIP: 10.96.0.11, ports: [{port: 80}]}}"
	myEgress    = "{kind: EgressNetwork, metadata: {namespace: ns, name: my-egress}, spec: {trafficPolicy: Allow}}"

	toServer  = "{group: policy.linkerd.io, kind: Server, name: linkerd-admin}"
	toService = "{group: core, kind: Service, name: my-svc, port: 4191}"
	toEgress  = "{group: policy.linkerd.io, kind: EgressNetwork, name: my-egress, port: 4191}"

	serverEntry  = "policy.linkerd.io/Server/ns/linkerd-admin"
	serviceEntry = "core/Service/ns/my-svc:4191"
	egressEntry  = "policy.linkerd.io/EgressNetwork/ns/my-egress:4191"

	isAccepted = " Accepted=True(Accepted)"
	isResolved = " ResolvedRefs=True(ResolvedRefs)"
	noParent   = " Accepted=False(NoMatchingParent)"
	conflicted = " Accepted=False(RouteReasonConflicted)"
)

// routeKinds are all kinds of routes with their versions.
var routeKinds = []struct{ kind, version string }{
	{"policy HTTPRoute", "policy.linkerd.io/v1beta3"},
	{"HTTPRoute", "gateway.networking.k8s.io/v1"},
	{"GRPCRoute", "gateway.networking.k8s.io/v1"},
	{"TLSRoute", "gateway.networking.k8s.io/v1alpha2"},
	{"TCPRoute", "gateway.networking.k8s.io/v1alpha2"},
}

// routeDoc is a route with those parents and backends, one rule for each backend.
func routeDoc(kind, name, parents string, backends ...string) string {
	for _, k := range routeKinds {
		if k.kind == kind {
			var rules []string
			for _, b := range backends {
				rules = append(rules, "{backendRefs: ["+b+"]}")
			}
			return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {namespace: ns, name: %s}, spec: {parentRefs: [%s], rules: [%s]}}",
				k.version, strings.TrimPrefix(kind, "policy "), name, parents, strings.Join(rules, ", "))
		}
	}
	panic(kind)
}

// The cases of the rules, each by its number: objects, and the status that
// they then have.
func TestScenarios(t *testing.T) {
	type step struct {
		do func(c *cluster)
		// want is the status by "kind/name".
		want map[string]string
	}
	apply := func(docs ...string) func(*cluster) { return func(c *cluster) { c.apply(docs...) } }
	remove := func(kind, name string) func(*cluster) { return func(c *cluster) { c.remove(kind, "ns", name) } }
	rows := map[string][]step{
		"P247 a Server": {{apply(adminServer, routeDoc("policy HTTPRoute", "r", toServer)), map[string]string{"policy HTTPRoute/r": serverEntry + isAccepted}}},
		"P248 an existing and a missing Server": {{apply(adminServer, routeDoc("policy HTTPRoute", "r", toServer+", {group: policy.linkerd.io, kind: Server, name: missing}")),
			map[string]string{"policy HTTPRoute/r": serverEntry + isAccepted + "\npolicy.linkerd.io/Server/ns/missing" + noParent}}},
		"P249 a parent is replaced": {
			{apply(adminServer, routeDoc("policy HTTPRoute", "r", toServer)), map[string]string{"policy HTTPRoute/r": serverEntry + isAccepted}},
			{apply(routeDoc("policy HTTPRoute", "r", "{group: policy.linkerd.io, kind: Server, name: missing}")), map[string]string{"policy HTTPRoute/r": "policy.linkerd.io/Server/ns/missing" + noParent}},
			{apply(routeDoc("policy HTTPRoute", "r", "")), map[string]string{"policy HTTPRoute/r": ""}},
		},
		"P250 no parent that is ours": {{apply(routeDoc("HTTPRoute", "none", ""), routeDoc("HTTPRoute", "gateway", "{name: gw}, {kind: Gateway, name: gw}, {group: gateway.networking.k8s.io, kind: Service, name: my-svc}")),
			map[string]string{"HTTPRoute/none": "", "HTTPRoute/gateway": ""}}},
		"P251 P252 a Server comes and goes": {
			{apply(routeDoc("HTTPRoute", "r", toServer)), map[string]string{"HTTPRoute/r": serverEntry + noParent}},
			{apply(adminServer), map[string]string{"HTTPRoute/r": serverEntry + isAccepted}},
			{remove("Server", "linkerd-admin"), map[string]string{"HTTPRoute/r": serverEntry + noParent}},
		},
		"P253 B68 a Service comes and goes": {
			{apply(routeDoc("HTTPRoute", "r", toService)), map[string]string{"HTTPRoute/r": serviceEntry + noParent + isResolved}},
			{apply(mySvc), map[string]string{"HTTPRoute/r": serviceEntry + isAccepted + isResolved}},
			{remove("Service", "my-svc"), map[string]string{"HTTPRoute/r": serviceEntry + noParent + isResolved}},
		},
		"P253 forms of a reference": {{
			apply(mySvc, adminServer, routeDoc("HTTPRoute", "r", `{group: "", kind: service, name: my-svc}, {kind: Service, name: my-svc, namespace: ns, port: 80, sectionName: a}, `+
				"{group: Policy.Linkerd.io, kind: server, name: linkerd-admin, port: 1, sectionName: a}, {group: core, kind: Service, name: my-svc, port: 70000}, "+toService+", "+toService+
				", {group: policy.linkerd.io, kind: Server, name: linkerd-admin, namespace: far}")),
			map[string]string{"HTTPRoute/r": "core/Service/ns/my-svc" + isAccepted + isResolved + "\ncore/Service/ns/my-svc:80" + isAccepted + isResolved + "\n" + serverEntry + isAccepted +
				"\n" + serviceEntry + isAccepted + isResolved + "\n" + serviceEntry + isAccepted + isResolved + "\npolicy.linkerd.io/Server/far/linkerd-admin" + noParent},
		}},
		"P254 P255 B66 Services without a clusterIP": {
			{apply(strings.Replace(mySvc, "10.96.0.10", "None", 1), routeDoc("HTTPRoute", "r", toService)), map[string]string{"HTTPRoute/r": serviceEntry + noParent + `"parent service must have a ClusterIP"` + isResolved}},
			{apply(strings.Replace(mySvc, "clusterIP: 10.96.0.10", "type: ExternalName, externalName: a.b", 1)), map[string]string{"HTTPRoute/r": serviceEntry + noParent + `"parent service must have a ClusterIP"` + isResolved}},
			{apply(strings.Replace(mySvc, "clusterIP: 10.96.0.10, ", "", 1)), map[string]string{"HTTPRoute/r": serviceEntry + noParent + `"parent service must have a ClusterIP"` + isResolved}},
			{apply(strings.Replace(mySvc, "clusterIP", "type: ExternalName, externalName: a.b, clusterIP", 1)), map[string]string{"HTTPRoute/r": serviceEntry + noParent + `"parent service must have a ClusterIP"` + isResolved}},
			{apply(mySvc), map[string]string{"HTTPRoute/r": serviceEntry + isAccepted + isResolved}},
		},
		"P256 B66 entries of other controllers": {{
			apply(adminServer, strings.TrimSuffix(routeDoc("HTTPRoute", "r", toServer), "}")+`, status: {parents: [
				{controllerName: z.example/b, parentRef: {name: gw, sectionName: http}, conditions: [{type: Accepted, status: "True", reason: Accepted, message: hi}]},
				{controllerName: linkerd.io/policy-controller, parentRef: {name: stale}},
				{controllerName: a.example/a, parentRef: {name: gw}}]}}`),
			map[string]string{"HTTPRoute/r": "z.example/b ///gw#http Accepted=True(Accepted)\"hi\"\na.example/a ///gw\n" + serverEntry + isAccepted},
		}},
		"P257 P258 P259 P260 P263 backends of a Service's route": {{
			apply(mySvc, backendSvc, myEgress,
				routeDoc("HTTPRoute", "two", toService, "{name: backend, port: 1}, {kind: Service, group: core, name: my-svc}"),
				routeDoc("HTTPRoute", "missing", toService, "{name: backend}", "{name: nobody}"),
				routeDoc("HTTPRoute", "none", toService, ""),
				routeDoc("HTTPRoute", "server", toService, "{group: policy.linkerd.io, kind: Server, name: linkerd-admin}"),
				routeDoc("HTTPRoute", "first", toService, "{kind: Pod, name: nobody}, {name: nobody}"),
				routeDoc("HTTPRoute", "far", toService, "{name: backend, namespace: far}"),
				routeDoc("HTTPRoute", "egress", toService, "{group: policy.linkerd.io, kind: EgressNetwork, name: my-egress}"),
				routeDoc("HTTPRoute", "noegress", toService, "{group: policy.linkerd.io, kind: EgressNetwork, name: nobody}"),
			),
			map[string]string{
				"HTTPRoute/two":      serviceEntry + isAccepted + isResolved,
				"HTTPRoute/missing":  serviceEntry + isAccepted + " ResolvedRefs=False(BackendNotFound)",
				"HTTPRoute/none":     serviceEntry + isAccepted + isResolved,
				"HTTPRoute/server":   serviceEntry + isAccepted + " ResolvedRefs=False(InvalidKind)",
				"HTTPRoute/first":    serviceEntry + isAccepted + " ResolvedRefs=False(InvalidKind)",
				"HTTPRoute/far":      serviceEntry + isAccepted + " ResolvedRefs=False(BackendNotFound)",
				"HTTPRoute/egress":   serviceEntry + isAccepted + ` ResolvedRefs=False(InvalidKind)"EgressNetwork backend needs to be on a route that has an EgressNetwork parent"`,
				"HTTPRoute/noegress": serviceEntry + isAccepted + " ResolvedRefs=False(BackendNotFound)",
			},
		}},
		"P261 P262 P264 backends of an EgressNetwork's route": {{
			apply(mySvc, myEgress, strings.Replace(myEgress, "my-egress", "other", 1),
				routeDoc("HTTPRoute", "same", toEgress, "{group: policy.linkerd.io, kind: EgressNetwork, name: my-egress, port: 8888}"),
				routeDoc("HTTPRoute", "other", toEgress, "{group: policy.linkerd.io, kind: EgressNetwork, name: other}"),
				routeDoc("HTTPRoute", "service", toEgress, "{name: my-svc}"),
			),
			map[string]string{
				"HTTPRoute/same":    egressEntry + isAccepted + isResolved,
				"HTTPRoute/other":   egressEntry + isAccepted + ` ResolvedRefs=False(InvalidKind)"EgressNetwork backend needs to be on a route that has an EgressNetwork parent"`,
				"HTTPRoute/service": egressEntry + isAccepted + isResolved,
			},
		}},
		"P265 P266 G6 an EgressNetwork comes, is refused, is accepted, and goes": {
			{apply(routeDoc("TLSRoute", "r", toEgress)), map[string]string{"TLSRoute/r": egressEntry + noParent + isResolved}},
			{apply(strings.Replace(myEgress, "Allow", "Allow, networks: [{cidr: 10.0.0.0/8}]", 1)), map[string]string{"TLSRoute/r": egressEntry + noParent + `"EgressNetwork parent has not been accepted"` + isResolved}},
			{apply("{kind: EgressNetwork, metadata: {namespace: ns, name: my-egress}, spec: {trafficPolicy: Allow, networks: [{cidr: 10.0.0.0/8}]}, status: {conditions: [{type: Ready, status: 'True'}]}}"),
				map[string]string{"TLSRoute/r": egressEntry + noParent + `"EgressNetwork parent has not been accepted"` + isResolved}},
			{apply(myEgress), map[string]string{"TLSRoute/r": egressEntry + isAccepted + isResolved}},
			{remove("EgressNetwork", "my-egress"), map[string]string{"TLSRoute/r": egressEntry + noParent + isResolved}},
		},
		"P271 different ports do not conflict": {{
			apply(mySvc, routeDoc("HTTPRoute", "a", "{group: core, kind: Service, name: my-svc, port: 80}"), routeDoc("TCPRoute", "b", "{group: core, kind: Service, name: my-svc, port: 90}"),
				routeDoc("TCPRoute", "c", "{group: core, kind: Service, name: my-svc}"), routeDoc("TCPRoute", "d", "{group: core, kind: Service, name: my-svc, namespace: far, port: 80}")),
			map[string]string{
				"HTTPRoute/a": "core/Service/ns/my-svc:80" + isAccepted + isResolved, "TCPRoute/b": "core/Service/ns/my-svc:90" + isAccepted + isResolved,
				"TCPRoute/c": "core/Service/ns/my-svc" + isAccepted + isResolved, "TCPRoute/d": "core/Service/far/my-svc:80" + noParent + isResolved,
			},
		}},
		"P272 conflicts on a Server and on an EgressNetwork": {{
			apply(adminServer, myEgress, routeDoc("HTTPRoute", "h1", toServer), routeDoc("policy HTTPRoute", "h2", toEgress), routeDoc("GRPCRoute", "g1", toServer), routeDoc("GRPCRoute", "g2", toEgress)),
			map[string]string{
				"HTTPRoute/h1": serverEntry + conflicted, "policy HTTPRoute/h2": egressEntry + conflicted + isResolved,
				"GRPCRoute/g1": serverEntry + isAccepted, "GRPCRoute/g2": egressEntry + isAccepted + isResolved,
			},
		}},
		"1.3 a conflict needs no accepted rival and ends with it": {
			{apply(routeDoc("GRPCRoute", "g", toService), routeDoc("HTTPRoute", "h", toService), mySvc), map[string]string{"HTTPRoute/h": serviceEntry + conflicted + isResolved}},
			{remove("Service", "my-svc"), map[string]string{"HTTPRoute/h": serviceEntry + noParent + isResolved, "GRPCRoute/g": serviceEntry + noParent + isResolved}},
			{apply(mySvc), map[string]string{"HTTPRoute/h": serviceEntry + conflicted + isResolved}},
			{remove("GRPCRoute", "g"), map[string]string{"HTTPRoute/h": serviceEntry + isAccepted + isResolved}},
		},
		"P273 P274 P275 P276 networks of an EgressNetwork": {{
			apply(myEgress, egressDoc("outside", "{cidr: 1.0.0.0/8}, {cidr: 'fd00::/8'}"), egressDoc("all", "{cidr: 0.0.0.0/0}"), egressDoc("inside", "{cidr: 10.1.0.0/16}"), egressDoc("beside", "{cidr: 10.0.0.0/8, except: [9.0.0.0/8]}"),
				egressDoc("excepted", "{cidr: 0.0.0.0/0, except: [10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16]}"),
				egressDoc("halves", "{cidr: 0.0.0.0/0, except: [10.0.0.0/9, 10.128.0.0/9, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16]}"),
				egressDoc("wider", "{cidr: 0.0.0.0/0, except: [10.0.0.0/7, 100.0.0.0/8, 172.0.0.0/8, 192.0.0.0/8]}"), egressDoc("empty", ""),
				strings.TrimSuffix(egressDoc("foreign", "{cidr: 1.0.0.0/8}"), "}")+", status: {conditions: [{type: Accepted, status: 'False'}, {type: Other, status: 'True', reason: Why}]}}"),
			map[string]string{
				"EgressNetwork/my-egress": "Accepted=True(Accepted)", "EgressNetwork/outside": "Accepted=True(Accepted)", "EgressNetwork/empty": "Accepted=True(Accepted)",
				"EgressNetwork/all":      `Accepted=False(EgressReasonNetworkOverlap)"networks overlap with clusterNetworks"`,
				"EgressNetwork/inside":   `Accepted=False(EgressReasonNetworkOverlap)"networks overlap with clusterNetworks"`,
				"EgressNetwork/beside":   `Accepted=False(EgressReasonNetworkOverlap)"networks overlap with clusterNetworks"`,
				"EgressNetwork/halves":   `Accepted=False(EgressReasonNetworkOverlap)"networks overlap with clusterNetworks"`,
				"EgressNetwork/excepted": "Accepted=True(Accepted)", "EgressNetwork/wider": "Accepted=True(Accepted)",
				"EgressNetwork/foreign": "Other=True(Why) Accepted=True(Accepted)",
			},
		}},
		"P277 P278 P279 rate limits": {
			{apply(limitDoc("old", toServer), limitDoc("new", toServer), limitDoc("deployment", "{group: apps, kind: Deployment, name: x}")), map[string]string{
				"HTTPLocalRateLimitPolicy/old": serverEntry2 + "\nAccepted=False(NoMatchingTarget)", "HTTPLocalRateLimitPolicy/new": serverEntry2 + "\nAccepted=False(NoMatchingTarget)", "HTTPLocalRateLimitPolicy/deployment": ""}},
			{apply(adminServer), map[string]string{
				"HTTPLocalRateLimitPolicy/old": serverEntry2 + "\nAccepted=True(Accepted)", "HTTPLocalRateLimitPolicy/new": serverEntry2 + "\nAccepted=False(RateLimitReasonAlreadyExists)"}},
			{remove("HTTPLocalRateLimitPolicy", "old"), map[string]string{"HTTPLocalRateLimitPolicy/new": serverEntry2 + "\nAccepted=True(Accepted)"}},
		},
	}
	// P267 P268 P269 P270: every kind against every other, in both orders.
	order := map[string]int{"GRPCRoute": 0, "HTTPRoute": 1, "policy HTTPRoute": 1, "TLSRoute": 2, "TCPRoute": 3}
	for _, first := range routeKinds {
		rows["P257 P258 P260 backends of all rules of a "+first.kind] = []step{{
			apply(mySvc, backendSvc, routeDoc(first.kind, "good", toService, "{name: backend}", "{name: my-svc}"),
				routeDoc(first.kind, "missing", toService, "{name: backend}", "{name: my-svc}, {name: nobody}"),
				routeDoc(first.kind, "unknown", toService, "{name: backend}", "{kind: Pod, name: backend}")),
			map[string]string{
				first.kind + "/good":    serviceEntry + isAccepted + isResolved,
				first.kind + "/missing": serviceEntry + isAccepted + " ResolvedRefs=False(BackendNotFound)",
				first.kind + "/unknown": serviceEntry + isAccepted + " ResolvedRefs=False(InvalidKind)",
			},
		}}
		rows["P270 lone "+first.kind] = []step{{apply(mySvc, routeDoc(first.kind, "a", toService)), map[string]string{first.kind + "/a": serviceEntry + isAccepted + isResolved}}}
		for _, second := range routeKinds {
			a, b := isAccepted, isAccepted
			if order[first.kind] > order[second.kind] {
				a = conflicted
			} else if order[first.kind] < order[second.kind] {
				b = conflicted
			}
			rows["P267 P268 P269 P179 "+first.kind+" and "+second.kind] = []step{{
				apply(mySvc, routeDoc(first.kind, "a", toService), routeDoc(second.kind, "b", toService)),
				map[string]string{first.kind + "/a": serviceEntry + a + isResolved, second.kind + "/b": serviceEntry + b + isResolved},
			}}
		}
	}
	for name, steps := range rows {
		rulebook.Run(t, name, func(t *testing.T) {
			c := newCluster(t)
			m := c.join("lite")
			for i, s := range steps {
				s.do(c)
				m.settle(c)
				for object, want := range s.want {
					kind, name, _ := strings.Cut(object, "/")
					if diff := cmp.Diff(want, c.status(kind, name)); diff != "" {
						t.Errorf("step %d: status of %s (-want +got):\n%s", i, object, diff)
					}
				}
			}
		})
	}
}

// A reference with a port that is none gets no entry, and is logged (policy-status 2).
func TestParentWithImpossiblePort(t *testing.T) {
	for _, port := range []string{"0", "-1", "65536"} {
		t.Run(port, func(t *testing.T) {
			c := newCluster(t)
			m := c.join("lite")
			c.apply(mySvc, adminServer, routeDoc("HTTPRoute", "r", toService+", {group: core, kind: Service, name: my-svc, port: "+port+"}, {group: policy.linkerd.io, kind: Server, name: linkerd-admin, port: "+port+"}"))
			m.settle(c)
			if diff := cmp.Diff(serviceEntry+isAccepted+isResolved+"\n"+serverEntry+isAccepted, c.status("HTTPRoute", "r")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if log := m.log.String(); !strings.Contains(log, "ns/r") || !strings.Contains(log, "spec.parentRefs[1]") {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// What is written has all fields of a condition, and none that is null.
func TestConditionsAreWhole(t *testing.T) {
	foreign := strings.TrimSuffix(egressDoc("my-egress", "{cidr: 1.0.0.0/8}"), "}") + ", status: {conditions: [{type: Other, status: 'True'}]}}"
	for _, row := range []struct{ name, doc, want string }{
		{"EgressNetwork", foreign, `{"conditions":[{"status":"True","type":"Other","message":""},{"lastTransitionTime":"1970-01-01T00:00:00Z","status":"True","type":"Accepted","reason":"Accepted","message":""}]}`},
		{"rate limit", limitDoc("rl", toServer), `{"conditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","status":"False","type":"Accepted","reason":"NoMatchingTarget","message":""}],"targetRef":{"group":"policy.linkerd.io","kind":"Server","name":"linkerd-admin"}}`},
		{"route", routeDoc("HTTPRoute", "r", toServer), `{"parents":[{"parentRef":{"group":"policy.linkerd.io","kind":"Server","namespace":"ns","name":"linkerd-admin"},"controllerName":"linkerd.io/policy-controller","conditions":[{"type":"Accepted","status":"False","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"NoMatchingParent","message":""}]}]}`},
		{"route without parents any more", strings.TrimSuffix(routeDoc("HTTPRoute", "r", ""), "}") + ", status: {parents: [{controllerName: linkerd.io/policy-controller, parentRef: {name: gone}, conditions: []}]}}", `{"parents":[]}`},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			c := newCluster(t)
			m := c.join("lite")
			c.apply(row.doc)
			due := m.due()
			if len(due) != 1 {
				t.Fatalf("%d patches", len(due))
			}
			for _, p := range due {
				got, err := json.Marshal(p.status.at(metav1.Unix(0, 0)))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(row.want, string(got)); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			}
		})
	}
}

const serverEntry2 = "policy.linkerd.io/Server/linkerd-admin"

func egressDoc(name, networks string) string {
	return "{kind: EgressNetwork, metadata: {namespace: ns, name: " + name + "}, spec: {trafficPolicy: Deny, networks: [" + networks + "]}}"
}

func limitDoc(name, ref string) string {
	return "{kind: HTTPLocalRateLimitPolicy, metadata: {namespace: ns, name: " + name + "}, spec: {targetRef: " + ref + "}}"
}

// What is no change (policy-status 2.1).
func TestNoChangeIsNotWritten(t *testing.T) {
	const condition = `{type: %s, status: "True", reason: %s, message: "", lastTransitionTime: "2020-01-01T00:00:00Z"}`
	entry := func(name string, types ...string) string {
		var conditions []string
		for _, kind := range types {
			reason := kind
			conditions = append(conditions, fmt.Sprintf(condition, kind, reason))
		}
		return "{controllerName: linkerd.io/policy-controller, parentRef: {group: core, kind: Service, namespace: ns, name: " + name + ", port: 4191}, conditions: [" + strings.Join(conditions, ", ") + "]}"
	}
	const foreign = "{controllerName: example.com/x, parentRef: {name: gw}}"
	a, b := entry("a", acceptedType, resolvedRefsType), entry("b", acceptedType, resolvedRefsType)
	for _, row := range []struct {
		name, parents string
		writes        bool
	}{
		{"P280 equal but for the times", a + ", " + b, false},
		{"P281 B66 entries in another order", b + ", " + a, false},
		{"B66 foreign entries in between", b + ", " + foreign + ", " + a, false},
		{"P281 conditions in another order", entry("a", resolvedRefsType, acceptedType) + ", " + b, true},
		{"a condition is missing", entry("a", acceptedType) + ", " + b, true},
		{"an entry is missing", a, true},
		{"an entry too many", a + ", " + b + ", " + b, true},
		{"a port differs", strings.Replace(a, "4191", "4192", 1) + ", " + b, true},
		{"a port is missing", strings.Replace(a, ", port: 4191", "", 1) + ", " + b, true},
		{"a name differs", strings.Replace(a, "name: a", "name: aa", 1) + ", " + b, true},
		{"a namespace differs", strings.Replace(a, "namespace: ns", "namespace: far", 1) + ", " + b, true},
		{"a namespace is missing", strings.Replace(a, "namespace: ns, ", "", 1) + ", " + b, true},
		{"a kind differs", strings.Replace(a, "kind: Service", "kind: Server", 1) + ", " + b, true},
		{"a group differs", strings.Replace(a, "group: core", "group: ''", 1) + ", " + b, true},
		{"a section too many", strings.Replace(a, "port: 4191", "port: 4191, sectionName: x", 1) + ", " + b, true},
		{"a message differs", strings.Replace(a, `message: ""`, `message: "x"`, 1) + ", " + b, true},
		{"observed generation", strings.Replace(a, `message: ""`, `message: "", observedGeneration: 1`, 1) + ", " + b, true},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			c := newCluster(t)
			m := c.join("lite")
			parents := strings.ReplaceAll(toService, "my-svc", "a") + ", " + strings.ReplaceAll(toService, "my-svc", "b")
			c.apply(strings.ReplaceAll(mySvc, "my-svc", "a"), strings.ReplaceAll(mySvc, "my-svc", "b"),
				strings.TrimSuffix(routeDoc("HTTPRoute", "r", parents), "}")+", status: {parents: ["+row.parents+"]}}")
			if got := len(m.due()) > 0; got != row.writes {
				t.Errorf("writes: %v, want %v", got, row.writes)
			}
			m.settle(c)
			if due := m.due(); len(due) > 0 {
				t.Errorf("writes again: %+v", due)
			}
		})
	}
}
