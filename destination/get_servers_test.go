package destination

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
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

// Many Servers that have no effect are all touched at once.
func TestServersWithoutEffectAreSilent(t *testing.T) {
	t.Run("B32", func(t *testing.T) {
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
	})
}

// Servers of another namespace whose selectors match.
func TestServersStayInTheirNamespace(t *testing.T) {
	t.Run("B33, D77", func(t *testing.T) {
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
