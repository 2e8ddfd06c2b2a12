package destination

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

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
		{name: "D76, B30", before: withWeb(slice), steps: again},
		{name: "D77, B33", before: withWeb(slice), steps: []step{{want: []string{"A 10.0.0.12:8989"}}, {apply: []string{foreign}}}},
		{name: "D78, L05", before: withWeb(slice, opaque), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{serverYAML("s2", "{matchLabels: {app: web}}", "8989", "HTTP/1")}},
			{remove: []string{"Server/ns/s2"}},
		}},
		{name: "D79, B32", before: withWeb(slice, opaque), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{opaque}},
			{apply: []string{serverYAML("s2", "{matchLabels: {app: nobody}}", "8989", "opaque")}},
			{apply: []string{serverYAML("s1", "{matchLabels: {app: web}}", "8989", "opaque")}},
		}},
		{name: "D 1.11 the effect of a Server counts where the port is opaque anyway", before: withWeb(podYAML("name1-1", "10.0.0.12", annotated("config.linkerd.io/opaque-ports", "8989")), slice), steps: []step{
			{want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{opaque}, want: []string{"A 10.0.0.12:8989"}},
			{apply: []string{serverYAML("s2", "{}", "8989", "opaque")}},
			{remove: []string{"Server/ns/s1"}},
			{remove: []string{"Server/ns/s2"}, want: []string{"A 10.0.0.12:8989"}},
		}},
		{name: "D80, B34", before: withWeb(slice, broken, brokenVM, workloadYAML("vm", "10.0.0.20", ""), sliceYAML("b", 8989, "10.0.0.20 ew:vm")), steps: []step{
			{want: []string{"A 10.0.0.12:8989 10.0.0.20:8989"}},
			{apply: []string{opaque}, want: []string{"A 10.0.0.12:8989"}},
		}},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}

// Many Servers that have no effect are all touched at once.
func TestServersWithoutEffectAreSilent(t *testing.T) {
	rulebook.Covers(t, "B32")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		c.apply(workloadYAML("vm", "10.0.0.20", ""))
		touch := func(label string) {
			for i := range 300 {
				selector := []string{"podSelector", "externalWorkloadSelector"}[i%2]
				c.put(fmt.Sprintf("kind: Server\nmetadata: {namespace: ns, name: s%d, labels: {touched: '%s'}}\nspec: {%s: {matchLabels: {app: nobody}}, port: 8989, proxyProtocol: opaque}\n", i, label, selector))
			}
			c.settle()
		}
		touch("no")
		s, pod, vm := c.get(name1), c.profile(pod1At), c.profile("10.0.0.20:8989")
		s.want("A 10.0.0.12:8989")
		pod.want(pod1At + " name1-1")
		vm.want("10.0.0.20:8989 vm")
		for i := range 3 {
			touch(fmt.Sprint(i))
		}
		s.want()
		s.wantOpen()
		pod.want()
		vm.want()
	})
}

// Servers of another namespace whose selectors match.
func TestServersStayInTheirNamespace(t *testing.T) {
	rulebook.Covers(t, "B33, D77")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		c.apply(workloadYAML("vm", "10.0.0.20", ""), sliceYAML("b", 8989, "10.0.0.20 ew:vm"))
		s, pod, vm := c.get(name1), c.profile(pod1At), c.profile("10.0.0.20:8989")
		s.want("A 10.0.0.12:8989 10.0.0.20:8989")
		pod.want(pod1At + " name1-1")
		vm.want("10.0.0.20:8989 vm")
		both := []string{
			"kind: Server\nmetadata: {namespace: NS, name: a}\nspec: {podSelector: {}, port: 8989, proxyProtocol: opaque}\n",
			"kind: Server\nmetadata: {namespace: NS, name: b}\nspec: {externalWorkloadSelector: {}, port: 8989, proxyProtocol: opaque}\n",
		}
		for _, server := range both {
			c.apply(strings.Replace(server, "NS", "other", 1))
		}
		s.want()
		pod.want()
		vm.want()
		for _, server := range both {
			c.apply(strings.Replace(server, "NS", "ns", 1))
		}
		s.want("A 10.0.0.12:8989", "A 10.0.0.20:8989")
		pod.want(pod1At + " name1-1 *")
		vm.want("10.0.0.20:8989 vm *")
	})
}

// What is wrong with an object is said once for each version of
// what is wrong, however many streams read it, and with the object's name.
func TestWarningsAreGivenOnce(t *testing.T) {
	rulebook.Covers(t, "B29, B34, D112")
	var log strings.Builder
	config := testConfig()
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	opaque := "config.linkerd.io/opaque-ports"
	pod := func(note string) string {
		return podYAML("name1-1", "10.0.0.12", annotated(opaque, "x,8989"), annotated("config.linkerd.io/skip-inbound-ports", "y"), annotated("example.org/note", note))
	}
	service := strings.Replace(web[0], "name: name1}", "name: name1, annotations: {"+opaque+": z}}", 1)
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.apply(service, pod("a"), sliceYAML("a", 8989, "10.0.0.12 name1-1"), serverYAML("bad", "{matchExpressions: [{key: app, operator: In}]}", "8989", "opaque"), badProfileYAML("ns"))
		for range 2 {
			for _, port := range []string{"8989", "1", "2"} {
				s, profile, endpoint := c.get(name1Name+":"+port), c.profile(name1Name+":"+port), c.profile("10.0.0.12:"+port)
				c.apply(pod("b"), serverYAML("good", "{}", port, "opaque"))
				for _, cancel := range []func(){s.Cancel, profile.Cancel, endpoint.Cancel} {
					cancel()
				}
				c.settle()
			}
		}
		s := c.get(name1)
		for _, note := range []string{"c", "d"} {
			c.apply(podYAML("broken", "10.0.0.13", withoutProxy, annotated("example.org/note", note)), sliceYAML("b", 8989, "10.0.0.13 broken"))
			c.profile("10.0.0.13:8989").want()
		}
		s.Take()
		c.apply(serverYAML("bad", "{matchExpressions: [{key: app, operator: In}]}", "8990", "opaque"))
	})
	for text, want := range map[string]int{
		`object="Pod ns/name1-1" field=metadata.annotations[` + opaque + `]`:                       1,
		`object="Pod ns/name1-1" field=metadata.annotations[config.linkerd.io/skip-inbound-ports]`: 1,
		`object="Service ns/name1" field=metadata.annotations[` + opaque + `]`:                     1,
		`instead="its endpoints of Service ns/name1 are left out"`:                                 1,
		`instead="its address 10.0.0.13:8989 has no profile"`:                                      1,
		`object="Server ns/bad"`:                       1,
		`object="ServiceProfile ns/` + name1Name + `"`: 1,
	} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%q is logged %d times, want %d, in:\n%s", text, n, want, log.String())
		}
	}
}
