package destination

import (
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
