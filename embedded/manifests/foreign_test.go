package manifests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// TestPrintable is F8: names in manifests reach no terminal as they are.
func TestPrintable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a\x1b[2J.yaml", "apiVersion: v1\nkind: \"K\\e[2J\"\nmetadata: {name: \"x\\nmanifests: forged\"}\n")
	b.write("b.yaml", cm("b", "1"))
	b.start()
	b.prints(`a\x1b[2J.yaml:1: K\x1b[2J x\nmanifests: forged: `)
	if strings.ContainsAny(b.out.String(), "\x1b\a") || strings.Contains(b.out.String(), "\nmanifests: forged") {
		t.Errorf("printed %q", b.out)
	}
	plan, err := New(b.config()).DryRun(t.Context(), false)
	if err != nil || strings.Contains(plan.String(), "\x1b") {
		t.Errorf("%v: %q", err, plan)
	}
}

// TestSpared: what webhooks would not be asked about is not checked here, be it that the namespace
// is there with the label, or that the directory brings it.
func TestSpared(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit = func(cfg *Config) {
		cfg.Check = func(u *unstructured.Unstructured, labels func() map[string]string) []problems.Problem {
			if u.GetKind() != "ConfigMap" || labels()["hooks"] == "disabled" {
				return nil
			}
			return []problems.Problem{{Message: "never", Severity: problems.Error}}
		}
	}
	in := func(namespace string) string {
		return strings.ReplaceAll(cm("a", "1"), "namespace: ns", "namespace: "+namespace)
	}
	b.api.objects[source.Key{Kind: "Namespace", Name: "there"}] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"hooks": "disabled"}}}
	b.api.objects[source.Key{Kind: "Namespace", Name: "changed"}] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"hooks": "disabled"}}}
	b.write("x.yaml", docs(cm("a", "1"), in("there"), in("brought"), in("changed"),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: brought, labels: {hooks: disabled}}\n",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: changed, labels: {hooks: enabled}}\n"))
	b.start()
	for namespace, want := range map[string]bool{"ns": false, "there": true, "brought": true, "changed": false} {
		key := source.Key{Kind: "ConfigMap", Namespace: namespace, Name: "a"}
		if want {
			b.has(key)
		} else {
			b.prints("ConfigMap " + namespace + "/a: never")
		}
	}
}
