package destination

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestGetPorts(t *testing.T) {
	for _, sc := range []scenario{
		{
			name:   "D16 targetPort is not read",
			before: []string{serviceYAML("name1", "{port: 8989, targetPort: port1}"), web[1], sliceYAML("a", 8990, "10.0.0.12 name1-1")},
			steps:  []step{{want: []string{"A 10.0.0.12:8990"}}},
		},
		{
			name:   "D17",
			before: []string{serviceYAML("name1", "{name: app, port: 7778}"), web[1], sliceOf("name1", "a", "IPv4", "[{name: other, port: 1}, {name: app, port: 7779}]", "10.0.0.12 name1-1")},
			path:   "name1.ns.svc.cluster.local:7778",
			steps:  []step{{want: []string{"A 10.0.0.12:7779"}}},
		},
		{
			name:   "D20",
			before: withWeb(sliceOf("name1", "a", "IPv4", "null", "10.0.0.12 name1-1")),
			steps:  []step{{}, {apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:8989"}}},
		},
		{
			name:   "D 1.6 numeric target needs a port list, even an empty one",
			before: withWeb(sliceOf("name1", "a", "IPv4", "[]", "10.0.0.12 name1-1"), sliceOf("name1", "b", "IPv4", "null", "10.0.0.13")),
			path:   "name1.ns.svc.cluster.local:7000",
			steps:  []step{{want: []string{"A 10.0.0.12:7000"}}},
		},
		{
			name:   "D 1.6 a slice port without a number is no match",
			before: withWeb(sliceOf("name1", "a", "IPv4", "[{name: ''}]", "10.0.0.12 name1-1")),
			steps:  []step{{}},
		},
		{
			name:   "B09 slice ports that are no ports",
			before: withWeb(sliceYAML("a", 0, "10.0.0.12 name1-1"), sliceYAML("b", 65536+8989, "10.0.0.12 name1-1"), sliceYAML("c", -1, "10.0.0.12 name1-1")),
			steps:  []step{{}},
		},
		{
			name:   "D21, L01",
			before: []string{serviceYAML("name1", "{name: a, port: 80}"), web[1], sliceOf("name1", "a", "IPv4", "[{name: a, port: 8080}, {name: b, port: 8081}]", "10.0.0.12 name1-1")},
			path:   "name1.ns.svc.cluster.local",
			steps: []step{
				{want: []string{"A 10.0.0.12:8080"}},
				{apply: []string{serviceYAML("name1", "{name: b, port: 80}")}, want: []string{"A 10.0.0.12:8081", "R 10.0.0.12:8080"}},
			},
		},
		{
			name:   "D22",
			before: withWeb(sliceYAML("a", 8080, "10.0.0.12 name1-1")),
			steps: []step{
				{want: []string{"A 10.0.0.12:8080"}},
				{apply: []string{sliceYAML("a", 9090, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:9090", "R 10.0.0.12:8080"}},
			},
		},
		{
			name: "D23, L17",
			before: []string{serviceYAML("name1", "{name: a, port: 80}"),
				sliceOf("name1", "a", "IPv4", "[{name: a, port: 8080}, {name: b, port: 8081}]", "10.0.0.12"),
				sliceOf("name1", "b", "IPv4", "[{name: a, port: 8080}, {name: b, port: 8081}]", "10.0.0.13")},
			path: "name1.ns.svc.cluster.local",
			steps: []step{
				{want: []string{"A 10.0.0.12:8080 10.0.0.13:8080"}},
				{apply: []string{serviceYAML("name1", "{name: b, port: 80}")}, want: []string{"A 10.0.0.12:8081 10.0.0.13:8081", "R 10.0.0.12:8080 10.0.0.13:8080"}},
			},
		},
		{
			name: "B09 a slice without the named port has no endpoints for it",
			before: []string{serviceYAML("name1", "{name: http, port: 8989}, {name: admin, port: 9000}"),
				podYAML("a", "10.0.0.12"), podYAML("b", "10.0.0.13"),
				sliceOf("name1", "s1", "IPv4", "[{name: http, port: 8080}, {name: admin, port: 9001}]", "10.0.0.12 a"),
				sliceOf("name1", "s2", "IPv4", "[{name: admin, port: 9001}]", "10.0.0.12 a", "10.0.0.13 b")},
			steps: []step{{want: []string{"A 10.0.0.12:8080"}}},
		},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}

func TestGetEndpointsMode(t *testing.T) {
	endpointsMode := func(c *Config) { c.EnableEndpointSlices, c.EnableIPv6 = false, false }
	ref := func(pod string) string { return ", targetRef: {kind: Pod, namespace: ns, name: " + pod + "}" }
	before := []string{
		serviceYAML("name1", "{name: port1, port: 8989}, {name: port2, port: 8990}"), podYAML("a", "10.0.0.1"), podYAML("b", "10.0.0.2"),
		"kind: Endpoints\nmetadata: {namespace: ns, name: name1}\nsubsets:\n" +
			"- {addresses: [{ip: 10.0.0.1" + ref("a") + "}, {ip: 10.0.0.2" + ref("b") + "}], ports: [{name: port1, port: 8989}]}\n" +
			"- {addresses: [{ip: 10.0.0.1" + ref("a") + "}], notReadyAddresses: [{ip: 10.0.0.2" + ref("b") + "}], ports: [{name: port2, port: 8990}]}\n",
	}
	empty := "kind: Endpoints\nmetadata: {namespace: ns, name: name1}\n"
	for _, sc := range []scenario{
		{name: "D18", edit: endpointsMode, before: before, steps: []step{
			{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}},
			{apply: []string{empty}, want: []string{"R 10.0.0.1:8989 10.0.0.2:8989"}},
			{apply: before[3:], want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}},
			{remove: []string{"Endpoints/ns/name1"}, want: []string{"R 10.0.0.1:8989 10.0.0.2:8989"}},
		}},
		{name: "D19", edit: endpointsMode, before: before, path: "name1.ns.svc.cluster.local:8990", steps: []step{{want: []string{"A 10.0.0.1:8990"}}}},
		{name: "D 1.8 other kinds are dropped, slices are not read", edit: endpointsMode, before: []string{
			serviceYAML("name1", "{port: 8989}"), workloadYAML("vm", "10.0.0.3", ""),
			"kind: Endpoints\nmetadata: {namespace: ns, name: name1}\nsubsets: [{addresses: [{ip: 10.0.0.1, targetRef: {kind: Node, name: n}}, {ip: 10.0.0.3, targetRef: {kind: ExternalWorkload, namespace: ns, name: vm}}, {ip: 10.0.0.2}], ports: [{port: 8989}]}]\n",
		}, steps: []step{{want: []string{"A 10.0.0.2:8989"}}}},
		{name: "D 1.8 instances", edit: endpointsMode, path: "h.name1.ns.svc.cluster.local:8989", before: []string{
			serviceYAML("name1", "{port: 8989}"),
			"kind: Endpoints\nmetadata: {namespace: ns, name: name1}\nsubsets: [{addresses: [{ip: 10.0.0.1, hostname: h}, {ip: 10.0.0.2}], ports: [{port: 8989}]}]\n",
		}, steps: []step{{want: []string{"A 10.0.0.1:8989"}}}},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}

func TestGetSlices(t *testing.T) {
	two := withWeb(podYAML("name1-2", "10.0.0.13"), podYAML("name1-3", "10.0.0.14"))
	three := sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.13 name1-2", "10.0.0.14 name1-3")
	owned := "kind: EndpointSlice\nmetadata: {namespace: ns, name: owned, ownerReferences: [{kind: Service, name: name1}]}\naddressType: IPv4\nports: [{name: '', port: 8989}]\nendpoints: [{addresses: [10.0.0.20]}]\n"
	orphan := "kind: EndpointSlice\nmetadata: {namespace: ns, name: owned}\naddressType: IPv4\nports: [{name: '', port: 8989}]\nendpoints: [{addresses: [10.0.0.20]}]\n"
	for _, sc := range []scenario{
		{name: "D10", before: web, steps: []step{{}, {apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:8989"}}}},
		{name: "D11", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {ready: false}")), steps: []step{
			{},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {ready: true}")}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {ready: false}")}, want: []string{"R 10.0.0.12:8989"}},
		}},
		{name: "D12", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {terminating: true, serving: true}")), steps: []step{{want: []string{"A 10.0.0.12:8989"}}}},
		{name: "D24, L04", before: append(withWeb(), three), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{two[2]}, want: []string{"A 10.0.0.13:8989"}},
			{apply: []string{two[3]}, want: []string{"A 10.0.0.14:8989"}},
		}},
		{name: "D26", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("b", 8989, "10.0.0.13 name1-2")}, want: []string{"A 10.0.0.13:8989"}},
		}},
		{name: "D27, L02", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.13 name1-2")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989"}},
			{apply: []string{sliceYAML("b", 8989, "10.0.0.13 name1-2")}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}},
		}},
		{name: "D28, L03", before: append(append([]string{}, two...), three), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989 10.0.0.14:8989"}},
			{remove: []string{"Pod/ns/name1-1"}, want: []string{"R 10.0.0.12:8989"}},
			{remove: []string{"Pod/ns/name1-2"}, want: []string{"R 10.0.0.13:8989"}},
			{remove: []string{"EndpointSlice/ns/a"}, want: []string{"R 10.0.0.14:8989"}},
		}},
		{name: "D29, B05", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1"), sliceYAML("b", 8989, "10.0.0.13 name1-2")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989"}},
			{remove: []string{"EndpointSlice/ns/b"}, want: []string{"R 10.0.0.13:8989"}},
		}},
		{name: "D30", before: withWeb(orphan), steps: []step{{}, {apply: []string{orphan}}}},
		{name: "D 1.7 an empty label names no Service, and no owner counts beside it", before: withWeb(strings.Replace(owned, "name: owned,", "name: owned, labels: {kubernetes.io/service-name: ''},", 1)), steps: []step{
			{}, {apply: []string{owned}, want: []string{"A 10.0.0.20:8989"}},
		}},
		{name: "D 1.7 of two slices with one endpoint, the one written last describes it", before: withWeb(sliceYAML("b", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, "+hint("z"))}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("b", 8989, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:8989"}},
			{remove: []string{"EndpointSlice/ns/b"}, want: []string{"A 10.0.0.12:8989"}},
		}},
		{name: "D69 of two Pods with one address, the one that can be told of", before: []string{web[0], podYAML("a", "10.0.0.12", withoutProxy), podYAML("b", "10.0.0.12"), sliceYAML("a", 8989, "10.0.0.12 a", "10.0.0.12 b")}, steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{remove: []string{"Pod/ns/b"}, want: []string{"R 10.0.0.12:8989"}},
		}},
		{name: "D31 the first owner that is a Service", before: web, steps: []step{
			{},
			{apply: []string{strings.Replace(owned, "[{kind: Service, name: name1}]", "[{kind: Deployment, name: name1}]", 1)}},
			{apply: []string{strings.Replace(owned, "[{kind: Service, name: name1}]", "[{kind: Deployment, name: other}, {kind: Service}, {kind: Service, name: name1}]", 1)}, want: []string{"A 10.0.0.20:8989"}},
		}},
		{name: "D31", before: web, steps: []step{{}, {apply: []string{owned}, want: []string{"A 10.0.0.20:8989"}}, {apply: []string{orphan}, want: []string{"R 10.0.0.20:8989"}}}},
		{name: "D34", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{{want: []string{"A 10.0.0.12:8989"}}, {apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}}}},
		{name: "D35, D36 a change that shows is sent at once", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", annotated("config.linkerd.io/opaque-ports", "8989"))}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}},
		}},
		{name: "D35, D36 one that does not is silent", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", annotated("example.org/note", "x"))}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}},
		}},
		{name: "D37", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, "+hint("a"))}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:8989"}},
		}},
		{name: "D25, B03", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.13 name1-2")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989"}},
			{remove: []string{"Pod/ns/name1-1"}, want: []string{"R 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.13 name1-2")}},
		}},
		{name: "D 1.7 every address of an endpoint counts", before: []string{web[0],
			"kind: EndpointSlice\nmetadata: {namespace: ns, name: a, labels: {kubernetes.io/service-name: name1}}\naddressType: IPv4\nports: [{port: 8989}]\nendpoints: [{addresses: [10.0.0.1, 10.0.0.2]}]\n"},
			steps: []step{{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}}}},
		{name: "D 1.7 two Pods of one address", before: withWeb(podYAML("twin", "10.0.0.12"), sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.12 twin")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 twin")}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989)}, want: []string{"R 10.0.0.12:8989"}},
		}},
		{name: "D 1.12 an address that is none", before: []string{web[0], sliceOf("name1", "a", "FQDN", "[{port: 8989}]", "example.org"), sliceYAML("b", 8989, "10.0.0.2"), slice6YAML("c", 8989, "fe80::1%eth0")},
			steps: []step{{want: []string{"A 10.0.0.2:8989"}}, {remove: []string{"EndpointSlice/ns/a"}}}},
		{name: "B06 a slice re-created for a Pod of a new address", before: withWeb(sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{remove: []string{"EndpointSlice/ns/a"}, want: []string{"R 10.0.0.12:8989"}},
			{apply: []string{podYAML("name1-1", "10.0.0.99"), sliceYAML("a", 8989, "10.0.0.99 name1-1, zone: b")}, want: []string{"A 10.0.0.99:8989"}},
			{apply: []string{sliceYAML("a", 8989)}, want: []string{"R 10.0.0.99:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.99 name1-1, zone: b")}, want: []string{"A 10.0.0.99:8989"}},
		}},
		{name: "D 1.14 what a workload's change does not show is silent", before: []string{web[0], workloadYAML("vm", "10.0.0.20", ""), sliceYAML("a", 8989, "10.0.0.20 ew:vm")}, steps: []step{
			{want: []string{"A 10.0.0.20:8989"}},
			{apply: []string{workloadYAML("vm", "10.0.0.20", ", annotations: {example.org/heartbeat: '2'}")}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.20 ew:vm")}},
			{apply: []string{workloadYAML("vm", "10.0.0.20", ", annotations: {config.linkerd.io/opaque-ports: '8989'}")}, want: []string{"A 10.0.0.20:8989"}},
			{apply: []string{strings.Replace(workloadYAML("vm", "10.0.0.20", ""), "vm.local", "other.local", 1)}, want: []string{"A 10.0.0.20:8989"}},
			{remove: []string{"ExternalWorkload/ns/vm"}, want: []string{"R 10.0.0.20:8989"}},
		}},
		{name: "B17 a selector that flips", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.13 name1-2")}, want: []string{"A 10.0.0.13:8989", "R 10.0.0.12:8989"}},
		}},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}

// Slices that are left of a Service, or come before it, are of no Service: what
// a stream is told does not depend on whether it opened before or after.
func TestGetNoServiceNoEndpoints(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		remote := c.remoteCluster("target", "r.local", sliceOf("foo", "a", "IPv4", "[{name: '', port: 8989}]", "10.9.0.1"))
		c.apply(mirror(remoteLabel + ", " + remoteName))
		s := c.get(fooTarget)
		s.want()
		remote.apply(serviceYAML("foo", "{port: 8989}"))
		s.want("A 10.9.0.1:8989")
		remote.remove("Service/ns/foo")
		s.want("R 10.9.0.1:8989")
		c.get(fooTarget).want()
	})
}

// The labels of the set are those of the slice as it is now (D 1.13).
func TestGetSetLabelsFollowTheSlice(t *testing.T) {
	rulebook.Covers(t, "B06")
	slice := func(cluster string) string {
		return "kind: EndpointSlice\nmetadata: {namespace: ns, name: n1-v4, labels: {kubernetes.io/service-name: name1, mirror.linkerd.io/cluster-name: " + cluster + "}}\n" +
			"addressType: IPv4\nports: [{name: '', port: 8989}]\nendpoints: [{addresses: [10.0.0.12], targetRef: {kind: Pod, namespace: ns, name: name1-1}}]\n"
	}
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		s := c.get(name1)
		s.want("A 10.0.0.12:8989")
		for _, cluster := range []string{"east", "west"} {
			c.apply(slice(cluster))
			taken := s.Take()
			if len(taken) != 1 || labelText(taken[0].GetAdd().GetMetricLabels()) != "namespace=ns service=name1 target_cluster="+cluster {
				t.Errorf("in %s: %v", cluster, taken)
			}
		}
	})
}

// A slice whose label moves it to another Service.
func TestGetSliceChangesService(t *testing.T) {
	rulebook.Covers(t, "L21")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		c.apply(serviceYAML("other", "{port: 8989}"))
		old, next := c.get(name1), c.get("other.ns.svc.cluster.local:8989")
		old.want("A 10.0.0.12:8989")
		next.want()
		c.apply(sliceOf("other", "n1-v4", "IPv4", "[{name: '', port: 8989}]", "10.0.0.12 name1-1"))
		old.want("R 10.0.0.12:8989")
		if got := labelText(next.Take()[0].GetAdd().MetricLabels); got != "namespace=ns service=other" {
			t.Errorf("set labels %q", got)
		}
	})
}
