package destination

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// The tests of Get name the rules of the catalogue that they hold: D01-D91.

func TestGetAuthorities(t *testing.T) {
	for _, test := range []struct {
		name, path string
		code       codes.Code
		message    string
		want       []string
	}{
		{name: "D01", path: name1, want: []string{"A 10.0.0.12:8989"}},
		{name: "D02 no port means 80, literally", path: "name1.ns.svc.cluster.local", want: []string{"A 10.0.0.12:80"}},
		{name: "D04 foreign name", path: "linkerd.io", code: codes.InvalidArgument, message: "Invalid authority: linkerd.io"},
		{name: "D04 short name", path: "name1.ns:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns:8989"},
		{name: "D04 too many labels", path: "a.b.name1.ns.svc.cluster.local:1", code: codes.InvalidArgument, message: "Invalid authority: a.b.name1.ns.svc.cluster.local:1"},
		{name: "D04 too few labels", path: "ns.svc.cluster.local:1", code: codes.InvalidArgument, message: "Invalid authority: ns.svc.cluster.local:1"},
		{name: "D04 empty", path: "", code: codes.InvalidArgument, message: "Invalid authority: "},
		{name: "D04 other domain", path: "name1.ns.svc.other.local:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.other.local:8989"},
		{name: "D04 trailing dot", path: "name1.ns.svc.cluster.local.:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local.:8989"},
		{name: "D04 domain in capitals", path: "name1.ns.svc.CLUSTER.local:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.CLUSTER.local:8989"},
		{name: "D05 port 0", path: "name1.ns.svc.cluster.local:0", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:0"},
		{name: "D05 port 65536", path: "name1.ns.svc.cluster.local:65536", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:65536"},
		{name: "D05 port name", path: "name1.ns.svc.cluster.local:http", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:http"},
		{name: "D05 empty port", path: "name1.ns.svc.cluster.local:", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:"},
		{name: "D05 odd spelling", path: "name1.ns.svc.cluster.local:+08989", want: []string{"A 10.0.0.12:8989"}},
		{name: "D06 IP and port", path: "10.1.0.1:80", code: codes.InvalidArgument, message: "IP queries not supported by Get API: host=10.1.0.1"},
		{name: "D06 IP", path: "10.1.0.1", code: codes.InvalidArgument, message: "IP queries not supported by Get API: host=10.1.0.1"},
		{name: "D06 IPv6 and port", path: "[2001:db8::88]:80", code: codes.InvalidArgument, message: "IP queries not supported by Get API: host=2001:db8::88"},
		{name: "D07", path: "2001:db8::88", code: codes.InvalidArgument, message: "Invalid authority: 2001:db8::88"},
		{name: "D08", path: "nope.ns.svc.cluster.local:80", code: codes.NotFound, message: "Service nope.ns not found"},
		{name: "D08 case", path: "NAME1.ns.svc.cluster.local:80", code: codes.NotFound, message: "Service NAME1.ns not found"},
		{name: "D09, B23", path: "ext.ns.svc.cluster.local:80", code: codes.InvalidArgument, message: "Invalid authority: ext.ns.svc.cluster.local:80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, testConfig(), func(t *testing.T, c *cluster) {
				c.base()
				c.apply(externalName)
				s := c.get(test.path)
				s.want(test.want...)
				if test.code != codes.OK {
					s.wantStatus(test.code, test.message)
				} else {
					s.wantOpen()
				}
			})
		})
	}
}

const externalName = "kind: Service\nmetadata: {namespace: ns, name: ext}\nspec: {type: ExternalName, externalName: example.org}\n"

// B23: a Service that is no ExternalName any more answers new calls.
func TestGetExternalNameNoMore(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(externalName)
		c.get("ext.ns.svc.cluster.local:80").wantStatus(codes.InvalidArgument, "Invalid authority: ext.ns.svc.cluster.local:80")
		c.apply("kind: Service\nmetadata: {namespace: ns, name: ext}\nspec: {ports: [{port: 80}]}\n")
		c.get("ext.ns.svc.cluster.local:80").wantOpen()
	})
}

// D03: the scheme does not matter, nor does a token that cannot be read.
func TestGetIgnoresSchemeAndBadTokens(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		for _, token := range []string{"{", `{"ns":1}`, "{}\n", `{"nodeName":"nowhere"}`} {
			c.get(name1, token).want("A 10.0.0.12:8989")
		}
	})
}

// Scenarios are told in steps: what happens, and what each stream hears of it.
type step struct {
	apply  []string
	remove []string
	want   []string
}

type scenario struct {
	name   string
	edit   func(*Config)
	before []string
	path   string
	token  string
	steps  []step
}

// run plays the scenario; the first step is what the stream hears when it opens.
func (sc scenario) run(t *testing.T) {
	config := testConfig()
	if sc.edit != nil {
		sc.edit(&config)
	}
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.apply(sc.before...)
		path := sc.path
		if path == "" {
			path = name1
		}
		s := c.get(path, sc.token)
		s.want(sc.steps[0].want...)
		for i, step := range sc.steps[1:] {
			c.apply(step.apply...)
			if len(step.remove) > 0 {
				c.remove(step.remove...)
			}
			if s.want(step.want...); t.Failed() {
				t.Fatalf("in step %d", i+1)
			}
			// A client that comes now hears the same in one message.
			fresh := c.get(path, sc.token)
			s.wantSameAs(fresh)
			fresh.cancel()
		}
		s.wantOpen()
	})
}

// wantSameAs compares what two clients hold in the end.
func (s *getStream) wantSameAs(fresh *getStream) {
	s.t.Helper()
	if status, ended := fresh.status(); ended && status.Code() == codes.NotFound {
		return
	}
	old, now := s.all(), fresh.all()
	if old != now {
		s.t.Errorf("the stream holds\n%s\na new one holds\n%s", old, now)
	}
}

var web = []string{serviceYAML("name1", "{port: 8989}"), podYAML("name1-1", "10.0.0.12")}

func objects(more ...string) []string { return append(append([]string{}, web...), more...) }

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
			before: objects(sliceOf("name1", "a", "IPv4", "null", "10.0.0.12 name1-1")),
			steps:  []step{{}, {apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:8989"}}},
		},
		{
			name:   "D 1.6 numeric target needs a port list, even an empty one",
			before: objects(sliceOf("name1", "a", "IPv4", "[]", "10.0.0.12 name1-1"), sliceOf("name1", "b", "IPv4", "null", "10.0.0.13")),
			path:   "name1.ns.svc.cluster.local:7000",
			steps:  []step{{want: []string{"A 10.0.0.12:7000"}}},
		},
		{
			name:   "D 1.6 a slice port without a number is no match",
			before: objects(sliceOf("name1", "a", "IPv4", "[{name: ''}]", "10.0.0.12 name1-1")),
			steps:  []step{{}},
		},
		{
			name:   "D21",
			before: []string{serviceYAML("name1", "{name: a, port: 80}"), web[1], sliceOf("name1", "a", "IPv4", "[{name: a, port: 8080}, {name: b, port: 8081}]", "10.0.0.12 name1-1")},
			path:   "name1.ns.svc.cluster.local",
			steps: []step{
				{want: []string{"A 10.0.0.12:8080"}},
				{apply: []string{serviceYAML("name1", "{name: b, port: 80}")}, want: []string{"A 10.0.0.12:8081", "R 10.0.0.12:8080"}},
			},
		},
		{
			name:   "D22",
			before: objects(sliceYAML("a", 8080, "10.0.0.12 name1-1")),
			steps: []step{
				{want: []string{"A 10.0.0.12:8080"}},
				{apply: []string{sliceYAML("a", 9090, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:9090", "R 10.0.0.12:8080"}},
			},
		},
		{
			name: "D23",
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
		t.Run(sc.name, sc.run)
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
			serviceYAML("name1", "{port: 8989}"),
			"kind: Endpoints\nmetadata: {namespace: ns, name: name1}\nsubsets: [{addresses: [{ip: 10.0.0.1, targetRef: {kind: Node, name: n}}, {ip: 10.0.0.2}], ports: [{port: 8989}]}]\n",
		}, steps: []step{{want: []string{"A 10.0.0.2:8989"}}}},
	} {
		t.Run(sc.name, sc.run)
	}
}

func TestGetSlices(t *testing.T) {
	two := objects(podYAML("name1-2", "10.0.0.13"), podYAML("name1-3", "10.0.0.14"))
	three := sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.13 name1-2", "10.0.0.14 name1-3")
	owned := "kind: EndpointSlice\nmetadata: {namespace: ns, name: owned, ownerReferences: [{kind: Service, name: name1}]}\naddressType: IPv4\nports: [{name: '', port: 8989}]\nendpoints: [{addresses: [10.0.0.20]}]\n"
	orphan := "kind: EndpointSlice\nmetadata: {namespace: ns, name: owned}\naddressType: IPv4\nports: [{name: '', port: 8989}]\nendpoints: [{addresses: [10.0.0.20]}]\n"
	for _, sc := range []scenario{
		{name: "D10", before: web, steps: []step{{}, {apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}, want: []string{"A 10.0.0.12:8989"}}}},
		{name: "D11", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {ready: false}")), steps: []step{
			{},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {ready: true}")}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {ready: false}")}, want: []string{"R 10.0.0.12:8989"}},
		}},
		{name: "D12", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1, conditions: {terminating: true, serving: true}")), steps: []step{{want: []string{"A 10.0.0.12:8989"}}}},
		{name: "D24, B4", before: append(objects(), three), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{two[2]}, want: []string{"A 10.0.0.13:8989"}},
			{apply: []string{two[3]}, want: []string{"A 10.0.0.14:8989"}},
		}},
		{name: "D26", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("b", 8989, "10.0.0.13 name1-2")}, want: []string{"A 10.0.0.13:8989"}},
		}},
		{name: "D27", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.13 name1-2")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989"}},
			{apply: []string{sliceYAML("b", 8989, "10.0.0.13 name1-2")}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}},
		}},
		{name: "D28", before: append(append([]string{}, two...), three), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989 10.0.0.14:8989"}},
			{remove: []string{"Pod/ns/name1-1"}, want: []string{"R 10.0.0.12:8989"}},
			{remove: []string{"Pod/ns/name1-2"}, want: []string{"R 10.0.0.13:8989"}},
			{remove: []string{"EndpointSlice/ns/a"}, want: []string{"R 10.0.0.14:8989"}},
		}},
		{name: "D29, B05", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1"), sliceYAML("b", 8989, "10.0.0.13 name1-2")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989"}},
			{remove: []string{"EndpointSlice/ns/b"}, want: []string{"R 10.0.0.13:8989"}},
		}},
		{name: "D30", before: objects(orphan), steps: []step{{}, {apply: []string{orphan}}}},
		{name: "D31", before: web, steps: []step{{}, {apply: []string{owned}, want: []string{"A 10.0.0.20:8989"}}, {apply: []string{orphan}, want: []string{"R 10.0.0.20:8989"}}}},
		{name: "D34", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{{want: []string{"A 10.0.0.12:8989"}}, {apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}}}},
		{name: "D35, D36 a change that shows is sent at once", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", annotated("config.linkerd.io/opaque-ports", "8989"))}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}},
		}},
		{name: "D35, D36 one that does not is silent", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", annotated("example.org/note", "x"))}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1")}},
		}},
		{name: "D37", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
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
		{name: "D 1.7 two Pods of one address", before: objects(podYAML("twin", "10.0.0.12"), sliceYAML("a", 8989, "10.0.0.12 name1-1", "10.0.0.12 twin")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.12 twin")}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989)}, want: []string{"R 10.0.0.12:8989"}},
		}},
		{name: "D 1.12 an address that is none", before: []string{web[0], sliceOf("name1", "a", "FQDN", "[{port: 8989}]", "example.org"), sliceYAML("b", 8989, "10.0.0.2")},
			steps: []step{{want: []string{"A 10.0.0.2:8989"}}, {remove: []string{"EndpointSlice/ns/a"}}}},
		{name: "B06 a slice re-created for a Pod of a new address", before: objects(sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{remove: []string{"EndpointSlice/ns/a"}, want: []string{"R 10.0.0.12:8989"}},
			{apply: []string{podYAML("name1-1", "10.0.0.99"), sliceYAML("a", 8989, "10.0.0.99 name1-1, zone: b")}, want: []string{"A 10.0.0.99:8989"}},
			{apply: []string{sliceYAML("a", 8989)}, want: []string{"R 10.0.0.99:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.99 name1-1, zone: b")}, want: []string{"A 10.0.0.99:8989"}},
		}},
		{name: "B17 a selector that flips", before: append(append([]string{}, two...), sliceYAML("a", 8989, "10.0.0.12 name1-1")), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.13 name1-2")}, want: []string{"A 10.0.0.13:8989", "R 10.0.0.12:8989"}},
		}},
	} {
		t.Run(sc.name, sc.run)
	}
}

// D32, D33: deleting the Service takes everything, re-creating it gives it back.
func TestGetServiceRecreated(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		s := c.get(name1)
		s.want("A 10.0.0.12:8989")
		c.remove("Service/ns/name1")
		s.want("R 10.0.0.12:8989")
		s.wantOpen()
		c.get(name1).wantStatus(codes.NotFound, "Service name1.ns not found")
		c.apply(serviceYAML("name1", "{port: 8989}"))
		taken := s.take()
		if len(taken) != 1 || brief(taken[0]) != "A 10.0.0.12:8989" {
			t.Fatalf("after the re-creation: %v", taken)
		}
		if got := labelText(taken[0].GetAdd().MetricLabels); got != "namespace=ns service=name1" {
			t.Errorf("set labels %q", got)
		}
	})
}

// A slice whose label moves it to another Service (D section 7.2, B21).
func TestGetSliceChangesService(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		c.apply(serviceYAML("other", "{port: 8989}"))
		old, next := c.get(name1), c.get("other.ns.svc.cluster.local:8989")
		old.want("A 10.0.0.12:8989")
		next.want()
		c.apply(sliceOf("other", "n1-v4", "IPv4", "[{name: '', port: 8989}]", "10.0.0.12 name1-1"))
		old.want("R 10.0.0.12:8989")
		if got := labelText(next.take()[0].GetAdd().MetricLabels); got != "namespace=ns service=other" {
			t.Errorf("set labels %q", got)
		}
	})
}

// B34: the Server that is ignored is named in the log, once per version.
func TestIgnoredServerIsLogged(t *testing.T) {
	var log strings.Builder
	config := testConfig()
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.base()
		c.apply(serverYAML("bad", "{matchExpressions: [{key: app, operator: In}]}", "8989", "opaque"))
		c.get(name1).want("A 10.0.0.12:8989")
		c.apply(serverYAML("good", "{}", "8989", "opaque"))
		c.apply(serverYAML("good", "{}", "8990", "opaque"))
	})
	if n := strings.Count(log.String(), "server=ns/bad"); n != 1 {
		t.Errorf("named %d times in:\n%s", n, log.String())
	}
}

// D13-D15, B10, B11: instances by hostname.
func TestGetInstances(t *testing.T) {
	before := []string{
		serviceYAML("sts", "{port: 8989}"), podYAML("pod-0", "10.0.0.13"),
		sliceOf("sts", "a", "IPv4", "[{name: '', port: 8989}]", "10.0.0.13 pod-0, hostname: pod-0", "10.0.0.14", "10.0.0.15, hostname: pod-1"),
	}
	for _, sc := range []scenario{
		{name: "D13, B11", before: before, path: "pod-0.sts.ns.svc.cluster.local:8989", steps: []step{{want: []string{"A 10.0.0.13:8989"}}}},
		{name: "D14", before: before, path: "zzz.sts.ns.svc.cluster.local:8989", steps: []step{{}}},
		{name: "D15", before: before, path: "sts.ns.svc.cluster.local:8989", steps: []step{{want: []string{"A 10.0.0.13:8989 10.0.0.14:8989 10.0.0.15:8989"}}}},
	} {
		t.Run(sc.name, sc.run)
	}
}

func TestGetFamilies(t *testing.T) {
	noIPv6 := func(c *Config) { c.EnableIPv6 = false }
	four := sliceYAML("v4", 8989, "10.0.0.19 name1-1")
	six := slice6YAML("v6", 8989, "2001:db8::94 name1-1")
	dual := objects(four, six)
	for _, sc := range []scenario{
		{name: "D38, D39, D40, D41, B12", before: dual, steps: []step{
			{want: []string{"A [2001:db8::94]:8989"}},
			{remove: []string{"EndpointSlice/ns/v6"}, want: []string{"A 10.0.0.19:8989", "R [2001:db8::94]:8989"}},
			{apply: []string{six}, want: []string{"A [2001:db8::94]:8989", "R 10.0.0.19:8989"}},
			{apply: []string{sliceYAML("v4-too", 8989, "10.0.0.19 name1-1")}},
			{remove: []string{"EndpointSlice/ns/v4-too"}},
			{remove: []string{"EndpointSlice/ns/v4"}},
		}},
		{name: "D42", edit: noIPv6, before: objects(six), steps: []step{{}}},
		{name: "B12 IPv6 off", edit: noIPv6, before: dual, steps: []step{{want: []string{"A 10.0.0.19:8989"}}, {apply: []string{six}}, {apply: []string{four}}}},
		{name: "D43", edit: noIPv6, before: []string{web[0], slice6YAML("v6", 8989, "2001:db8::94")}, steps: []step{{want: []string{"A [2001:db8::94]:8989"}}}},
		{name: "D44", token: "n1", before: objects(nodeYAML("n1", "a"), sliceYAML("v4", 8989, "10.0.0.19 name1-1, "+hint("a")), slice6YAML("v6", 8989, "2001:db8::94 name1-1, "+hint("b"))),
			steps: []step{{want: []string{"A 10.0.0.19:8989"}}}},
	} {
		t.Run(sc.name, sc.run)
	}
}

func TestGetZones(t *testing.T) {
	hinted := sliceYAML("a", 8989, "10.0.0.1, "+hint("a"), "10.0.0.2, "+hint("b"))
	nodes := []string{web[0], nodeYAML("na", "a"), nodeYAML("nb", "b"), nodeYAML("nc", "c"), nodeYAML("nz", "")}
	with := func(more ...string) []string { return append(append([]string{}, nodes...), more...) }
	for _, sc := range []scenario{
		{name: "D45", before: with(hinted), token: "na", steps: []step{
			{want: []string{"A 10.0.0.1:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.1, "+hint("a"))}},
		}},
		{name: "D46, B14", before: with(hinted), token: "na", steps: []step{
			{want: []string{"A 10.0.0.1:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.1, "+hint("a"), "10.0.0.2")}, want: []string{"A 10.0.0.2:8989"}},
			{apply: []string{hinted}, want: []string{"R 10.0.0.2:8989"}},
		}},
		{name: "D47 unknown node", before: with(hinted), token: "nx", steps: []step{{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}}}},
		{name: "D47 node without zone", before: with(hinted), token: "nz", steps: []step{{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}}}},
		{name: "D47 no token", before: with(hinted), steps: []step{{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}}}},
		{name: "D48", before: with(hinted), token: "nc", steps: []step{{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}}}},
		{name: "B18 a node that is cached later", before: []string{web[0], hinted}, token: "na", steps: []step{
			{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}},
			{apply: []string{nodeYAML("na", "a")}, want: []string{"R 10.0.0.2:8989"}},
			{apply: []string{nodeYAML("na", "b")}, want: []string{"A 10.0.0.2:8989", "R 10.0.0.1:8989"}},
			{remove: []string{"Node//na"}, want: []string{"A 10.0.0.1:8989"}},
		}},
		{name: "several hints", before: with(sliceYAML("a", 8989, "10.0.0.1, hints: {forZones: [{name: c}, {name: a}]}", "10.0.0.2, "+hint("b"))), token: "na", steps: []step{
			{want: []string{"A 10.0.0.1:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.1, hints: {forZones: [{name: a}, {name: c}]}", "10.0.0.2, "+hint("b"))}},
		}},
	} {
		t.Run(sc.name, sc.run)
	}
}

func TestGetTrafficPolicy(t *testing.T) {
	local := serviceYAML("name1", "{port: 8989}", "  internalTrafficPolicy: Local")
	pods := []string{podYAML("p1", "10.0.0.1", onNode("n1")), podYAML("p2", "10.0.0.2", onNode("n2")), podYAML("p3", "10.0.0.3", onNode("n1")), workloadYAML("vm", "10.0.0.4", "")}
	slice := sliceYAML("a", 8989, "10.0.0.1 p1", "10.0.0.2 p2", "10.0.0.3 p3")
	with := func(more ...string) []string { return append(append([]string{local}, pods...), more...) }
	for _, sc := range []scenario{
		{name: "D49, D50, B13", before: with(slice), token: "n1", steps: []step{
			{want: []string{"A 10.0.0.1:8989 10.0.0.3:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.1 p1", "10.0.0.3 p3")}},
			{apply: []string{slice}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.1 p1", "10.0.0.2 p2")}, want: []string{"R 10.0.0.3:8989"}},
			{apply: []string{serviceYAML("name1", "{port: 8989}")}, want: []string{"A 10.0.0.2:8989"}},
			{apply: []string{local}, want: []string{"R 10.0.0.2:8989"}},
		}},
		{name: "D51", before: with(slice), steps: []step{{}}},
		{name: "D51 on the switch", before: append([]string{web[0], slice}, pods...), steps: []step{
			{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989 10.0.0.3:8989"}},
			{apply: []string{local}, want: []string{"R 10.0.0.1:8989 10.0.0.2:8989 10.0.0.3:8989"}},
		}},
		{name: "D52", before: with(sliceYAML("a", 8989, "10.0.0.1 p1, "+hint("z"), "10.0.0.4 ew:vm", "10.0.0.5")), token: "n1", steps: []step{{want: []string{"A 10.0.0.1:8989"}}}},
		{name: "a Pod that is bound later", before: []string{local, podYAML("p1", "10.0.0.1"), sliceYAML("a", 8989, "10.0.0.1 p1")}, token: "n1", steps: []step{
			{}, {apply: pods[:1], want: []string{"A 10.0.0.1:8989"}},
		}},
	} {
		t.Run(sc.name, sc.run)
	}
}

func TestGetServers(t *testing.T) {
	slice := sliceYAML("a", 8989, "10.0.0.12 name1-1")
	opaque := serverYAML("s1", "{matchLabels: {app: web}}", "http", "opaque")
	moved := serverYAML("s1", "{matchLabels: {app: other}}", "http", "opaque")
	foreign := "kind: Server\nmetadata: {namespace: other, name: s}\nspec: {podSelector: {matchLabels: {app: web}}, port: 8989, proxyProtocol: opaque}\n"
	broken := serverYAML("bad", "{matchExpressions: [{key: app, operator: In}]}", "8989", "opaque")
	brokenVM := "kind: Server\nmetadata: {namespace: ns, name: bad-vm}\nspec: {externalWorkloadSelector: {matchExpressions: [{key: app, operator: NotIn, values: []}]}, port: 8989, proxyProtocol: opaque}\n"
	again := []step{
		{want: []string{"A 10.0.0.12:8989"}},
		{apply: []string{opaque}, want: []string{"A 10.0.0.12:8989"}},
		{apply: []string{moved}, want: []string{"A 10.0.0.12:8989"}},
		{apply: []string{opaque}, want: []string{"A 10.0.0.12:8989"}},
		{remove: []string{"Server/ns/s1"}, want: []string{"A 10.0.0.12:8989"}},
	}
	for _, sc := range []scenario{
		{name: "D76, B30", before: objects(slice), steps: again},
		{name: "D77, B33", before: objects(slice), steps: []step{{want: []string{"A 10.0.0.12:8989"}}, {apply: []string{foreign}}}},
		{name: "D78", before: objects(slice, opaque), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{serverYAML("s2", "{matchLabels: {app: web}}", "8989", "HTTP/1")}},
			{remove: []string{"Server/ns/s2"}},
		}},
		{name: "D79, B32", before: objects(slice, opaque), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{opaque}},
			{apply: []string{serverYAML("s2", "{matchLabels: {app: nobody}}", "8989", "opaque")}},
			{apply: []string{serverYAML("s1", "{matchLabels: {app: web}}", "8989", "opaque")}},
		}},
		{name: "D80, B34", before: objects(slice, broken, brokenVM, workloadYAML("vm", "10.0.0.20", ""), sliceYAML("b", 8989, "10.0.0.20 ew:vm")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.20:8989"}},
			{apply: []string{opaque}, want: []string{"A 10.0.0.12:8989"}},
		}},
	} {
		t.Run(sc.name, sc.run)
	}
}
