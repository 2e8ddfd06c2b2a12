package manifests

import (
	"strings"
	"testing"
)

// A kustomization that becomes part of another one is a source no longer: what
// only it brought goes, once that has lasted.
func TestKustomizationBecomesPart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("base/kustomization.yaml", "resources: [a.yaml]\n")
	b.write("base/a.yaml", cm("a", "1"))
	b.start()
	b.data("a", "1")
	b.write("prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\n")
	b.data("prod-a", "1")
	b.hasNot(configMap("a"))
	b.inSync()
}

// A kustomization file that an editor has emptied, and not yet written, still
// uses what it did: that is no source of its own meanwhile.
func TestEmptyKustomization(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("base/kustomization.yaml", "resources: [a.yaml]\n")
	b.write("base/a.yaml", cm("a", "1"))
	b.write("prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\n")
	b.start()
	b.data("prod-a", "1")
	for _, content := range []string{"", "\n", "# to be written\n"} {
		b.write("prod/kustomization.yaml", content)
		b.eventually("seen", func() bool { return len(b.sync.Status().Faults) > 0 })
		b.write("prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\n")
		b.inSync()
	}
	for _, request := range b.api.requests("") {
		if strings.Contains(request, "ns/a") {
			t.Errorf("the part was applied: %s", request)
		}
	}
	b.deletesNothing()
}
