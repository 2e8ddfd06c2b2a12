package destination

import (
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestGetFamilies(t *testing.T) {
	noIPv6 := func(c *Config) { c.EnableIPv6 = false }
	four := sliceYAML("v4", 8989, "10.0.0.19 name1-1")
	six := slice6YAML("v6", 8989, "2001:db8::94 name1-1")
	dual := withWeb(four, six)
	fourVM, sixVM := sliceYAML("z", 8989, "10.0.0.20 ew:vm"), slice6YAML("a", 8989, "2001:db8::20 ew:vm")
	vm := []string{web[0], workloadYAML("vm", "10.0.0.20", ""), sixVM, fourVM}
	for _, sc := range []scenario{
		{name: "D38, D39, D40, D41, B12", before: dual, steps: []step{
			{want: []string{"A [2001:db8::94]:8989"}},
			{remove: []string{"EndpointSlice/ns/v6"}, want: []string{"A 10.0.0.19:8989", "R [2001:db8::94]:8989"}},
			{apply: []string{six}, want: []string{"A [2001:db8::94]:8989", "R 10.0.0.19:8989"}},
			{apply: []string{sliceYAML("v4-too", 8989, "10.0.0.19 name1-1")}},
			{remove: []string{"EndpointSlice/ns/v4-too"}},
			{remove: []string{"EndpointSlice/ns/v4"}},
		}},
		{name: "D42", edit: noIPv6, before: withWeb(six), steps: []step{{}}},
		{name: "B12 IPv6 off", edit: noIPv6, before: dual, steps: []step{{want: []string{"A 10.0.0.19:8989"}}, {apply: []string{six}}, {apply: []string{four}}}},
		{name: "D 1.7 an ExternalWorkload of both families, IPv6 on", before: vm, steps: []step{
			{want: []string{"A [2001:db8::20]:8989"}}, {apply: []string{sixVM}}, {apply: []string{fourVM}},
			{remove: []string{"EndpointSlice/ns/a"}, want: []string{"A 10.0.0.20:8989", "R [2001:db8::20]:8989"}},
		}},
		{name: "D 1.7 an ExternalWorkload of both families, IPv6 off", edit: noIPv6, before: vm, steps: []step{
			{want: []string{"A 10.0.0.20:8989"}}, {apply: []string{sixVM}}, {apply: []string{fourVM}},
		}},
		{name: "D43", edit: noIPv6, before: []string{web[0], slice6YAML("v6", 8989, "2001:db8::94")}, steps: []step{{want: []string{"A [2001:db8::94]:8989"}}}},
		{name: "D44", token: "n1", before: withWeb(nodeYAML("n1", "a"), sliceYAML("v4", 8989, "10.0.0.19 name1-1, "+hint("a")), slice6YAML("v6", 8989, "2001:db8::94 name1-1, "+hint("b"))),
			steps: []step{{want: []string{"A 10.0.0.19:8989"}}}},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}

// Slices of both families are applied again and again, in both orders.
func TestGetDualStackIsStable(t *testing.T) {
	four, six := sliceYAML("web-4", 8989, "10.0.0.19 name1-1"), slice6YAML("web-6", 8989, "2001:db8::94 name1-1")
	for _, test := range []struct {
		name string
		ipv6 bool
		want string
	}{{"B12 IPv6 on", true, "A [2001:db8::94]:8989"}, {"B12 IPv6 off", false, "A 10.0.0.19:8989"}} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			config := testConfig()
			config.EnableIPv6 = test.ipv6
			bubble(t, config, func(t *testing.T, c *cluster) {
				c.apply(withWeb(four, six)...)
				s := c.get(name1)
				s.want(test.want)
				for i := range 20 {
					c.apply([]string{four, six}[i%2], []string{six, four}[i%2])
					s.want()
					c.get(name1).want(test.want)
				}
				c.remove("EndpointSlice/ns/web-6")
				if test.ipv6 {
					s.want("A 10.0.0.19:8989", "R [2001:db8::94]:8989")
				} else {
					s.want()
				}
			})
		})
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
		{name: "L18 a node that is cached later", before: []string{web[0], hinted}, token: "na", steps: []step{
			{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989"}},
			{apply: []string{nodeYAML("na", "a")}, want: []string{"R 10.0.0.2:8989"}},
			{apply: []string{nodeYAML("na", "b")}, want: []string{"A 10.0.0.2:8989", "R 10.0.0.1:8989"}},
			{remove: []string{"Node//na"}, want: []string{"A 10.0.0.1:8989"}},
		}},
		{name: "D53 a client's node moves to another zone", before: with(web[1], sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a", "10.0.0.13")), token: "na", steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.13:8989"}},
			{apply: []string{nodeYAML("na", "b")}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{nodeYAML("na", "c")}},
			{apply: []string{nodeYAML("na", "")}, want: []string{"A 10.0.0.12:8989"}},
			{remove: []string{"Node//na"}},
		}},
		{name: "several hints", before: with(sliceYAML("a", 8989, "10.0.0.1, hints: {forZones: [{name: c}, {name: a}]}", "10.0.0.2, "+hint("b"))), token: "na", steps: []step{
			{want: []string{"A 10.0.0.1:8989"}},
			{apply: []string{sliceYAML("a", 8989, "10.0.0.1, hints: {forZones: [{name: a}, {name: c}]}", "10.0.0.2, "+hint("b"))}},
		}},
	} {
		rulebook.Run(t, sc.name, sc.run)
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
		{name: "D51, D52 without a node, Pods that have none", before: with(podYAML("p0", "10.0.0.6"), sliceYAML("a", 8989, "10.0.0.1 p1", "10.0.0.4 ew:vm", "10.0.0.5", "10.0.0.6 p0")), steps: []step{{want: []string{"A 10.0.0.6:8989"}}}},
		{name: "D51 on the switch", before: append([]string{web[0], slice}, pods...), steps: []step{
			{want: []string{"A 10.0.0.1:8989 10.0.0.2:8989 10.0.0.3:8989"}},
			{apply: []string{local}, want: []string{"R 10.0.0.1:8989 10.0.0.2:8989 10.0.0.3:8989"}},
		}},
		{name: "D52", before: with(sliceYAML("a", 8989, "10.0.0.1 p1, "+hint("z"), "10.0.0.4 ew:vm", "10.0.0.5")), token: "n1", steps: []step{{want: []string{"A 10.0.0.1:8989"}}}},
		{name: "a Pod that is bound later", before: []string{local, podYAML("p1", "10.0.0.1"), sliceYAML("a", 8989, "10.0.0.1 p1")}, token: "n1", steps: []step{
			{}, {apply: pods[:1], want: []string{"A 10.0.0.1:8989"}},
		}},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}
