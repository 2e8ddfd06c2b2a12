package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Overlays lie beside their bases, so `up overlays/prod` reads what lies outside of DIR: a
// directory with a kustomization, as kubectl does, and what that one may read. It is followed
// as DIR is. Other files outside of a kustomization's directory are not read, nor is what
// makes a reader wait.
func TestKustomizationReadsOutside(t *testing.T) {
	t.Parallel()
	rulebook.Covers(t, "F4, F5")
	b := newBench(t)
	root := t.TempDir()
	b.dir = filepath.Join(root, "overlays", "prod")
	base := filepath.Join(root, "base")
	must(t, os.MkdirAll(base, 0o755))
	must(t, os.WriteFile(filepath.Join(base, "kustomization.yaml"), []byte("resources: [a.yaml]\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(base, "a.yaml"), []byte(cm("a", "1")), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "secret"), []byte("of others"), 0o644))
	b.write("kustomization.yaml", "resources: [../../base]\nnamePrefix: prod-\n")
	b.start()
	b.data("prod-a", "1")
	must(t, os.WriteFile(filepath.Join(base, "a.yaml"), []byte(cm("a", "2")), 0o644))
	b.data("prod-a", "2")

	for _, field := range []string{
		"configMapGenerator: [{name: g, files: [../../secret]}]",
		"configMapGenerator: [{name: g, envs: [../../secret]}]",
		"secretGenerator: [{name: g, files: ['" + filepath.Join(root, "secret") + "']}]",
		"patches: [{path: ../../secret}]",
		"configMapGenerator: [{name: g, files: [link]}]",
	} {
		if strings.Contains(field, "link") {
			must(t, os.Symlink(filepath.Join(root, "secret"), b.path("link")))
		}
		b.write("kustomization.yaml", "resources: [../../base]\nnamePrefix: prod-\n"+field+"\n")
		b.eventually(field+" is refused", func() bool {
			faults := b.sync.Status().Faults
			return len(faults) == 1 && strings.Contains(faults[0].Message, "is not in or below")
		})
		b.write("kustomization.yaml", "resources: [../../base]\nnamePrefix: prod-\n")
		b.inSync()
	}

	must(t, syscall.Mkfifo(filepath.Join(base, "pipe.yaml"), 0o644))
	must(t, os.WriteFile(filepath.Join(base, "kustomization.yaml"), []byte("resources: [a.yaml, pipe.yaml]\n"), 0o644))
	b.prints("pipe.yaml is no regular file, which is not read")
	b.deletesNothing()
}

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
