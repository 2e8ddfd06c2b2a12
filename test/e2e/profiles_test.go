package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/validator/validatortest"
)

// TestProfiles applies every ServiceProfile of docs/rules/service-profiles.md (V01 to V81)
// by kubectl: what the check denies is refused with the field's name, what it
// allows is stored, unless the definition's schema does not allow it.
func TestProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	dir := t.TempDir()
	var namespaces bytes.Buffer
	cases := map[string]validatortest.Case{} // by namespace: most have one name
	for i, c := range validatortest.Cases() {
		switch id, _, _ := strings.Cut(c.ID, " "); id {
		case "V77", "V78", "V79", "V80", "V81":
			// No ServiceProfile, or one as it is stored: kubectl does not send them.
			continue
		case "V19":
			// Of keys given twice kubectl sends the second, to any API server.
			continue
		}
		namespace := fmt.Sprintf("n%d", i)
		fmt.Fprintf(&namespaces, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", namespace)
		text := c.Text()
		if c.Object == "" {
			text = "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\n" + strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1)
		} else {
			text = complete(text, namespace)
		}
		write(t, filepath.Join(dir, fileOf(c)), text)
		cases[namespace] = c
	}
	// A04: a namespace can be left alone by the webhook.
	namespaces.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: skipped, labels: {config.linkerd.io/admission-webhooks: disabled}}\n")
	skipped := validatortest.Case{ID: "A04"}
	cases["skipped"] = skipped
	write(t, filepath.Join(dir, fileOf(skipped)), complete("metadata: {name: web}\nspec: {routes: [{name: r, condition: {}}]}", "skipped"))
	write(t, filepath.Join(dir, "0.yaml"), namespaces.String())

	cmd := exec.Command("linkerd-lite", "up", "--ephemeral", "--random-ports", "--without", "controllers,kubelet", "--",
		"sh", "-c", "linkerd-lite kubectl apply -f "+dir+"; linkerd-lite kubectl get serviceprofiles -A --no-headers")
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	stored := map[string]bool{}
	for line := range strings.Lines(stdout.String()) {
		if fields := strings.Fields(line); cases[fields[0]].ID != "" {
			stored[fields[0]] = true
		}
	}
	for namespace, c := range cases {
		rulebook.Run(t, c.ID, func(t *testing.T) {
			want := cmp.Or(c.Schema, c.Field)
			said := about(stderr.String(), fileOf(c))
			if stored[namespace] != (want == "") {
				t.Errorf("stored: %v; kubectl says %q", stored[namespace], said)
			}
			// The check and the schema write one path in different ways: indices, metadata.
			if last := want[strings.LastIndex(want, ".")+1:]; !strings.Contains(said, last) || want == "" && said != "" {
				t.Errorf("kubectl says %q, want something about %q", said, want)
			}
		})
	}
	for _, warning := range []string{
		`metadata.name: "web" is not the name of a service`,         // V06
		`metadata.name: "example.com" is not the name of a service`, // V07
		"metadata.name: there is no Service n/web",                  // B40
		`spec.routes[0].condition.pathRegex: "[(" does not compile`, // V34
		`spec.routes[0].timeout: "-5s" is negative`,                 // V39
		`spec.retryBudget.ttl: "10ms" is not within 1s to 1m0s`,     // V58
		`spec.retryBudget.ttl: "-10s" is negative`,                  // V61
	} {
		if !strings.Contains(stderr.String(), "Warning: "+warning) {
			t.Errorf("kubectl does not warn that %s", warning)
		}
	}
}

// about is what kubectl says about a file, "" if nothing.
func about(output, file string) string {
	_, said, _ := strings.Cut(output, "/"+file+`": `)
	said, _, _ = strings.Cut(said, "\nError")
	said, _, _ = strings.Cut(said, "\nerror")
	return said
}

// complete adds what an object lacks that kubectl asks for. What is no object
// stays as it is.
func complete(text, namespace string) string {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil || len(object) == 0 {
		return text
	}
	if object["apiVersion"] == nil {
		object["apiVersion"], object["kind"] = "linkerd.io/v1alpha2", "ServiceProfile"
	}
	object["metadata"].(map[string]any)["namespace"] = namespace
	data, _ := yaml.Marshal(object) // it was read from YAML
	return string(data)
}

func fileOf(c validatortest.Case) string {
	return regexp.MustCompile(`\W+`).ReplaceAllString(c.ID, "-") + ".yaml"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
