package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// What a checkout holds beside manifests can be left out, and what is none is told once.
func TestIgnore(t *testing.T) {
	rulebook.Covers(t, "B84")
	dir := t.TempDir()
	for name, content := range map[string]string{
		".linkerdliteignore":      "# no manifests\nskipped/\n*.tmpl.yaml\n!kept.tmpl.yaml\n",
		"a.yaml":                  cm("a", "1"),
		"skipped/b.yaml":          cm("b", "1"),
		"sub/c.tmpl.yaml":         "{{ .x }}",
		"sub/kept.tmpl.yaml":      cm("c", "1"),
		"sub/.linkerdliteignore":  "local.yaml\n",
		"sub/local.yaml":          cm("d", "1"),
		"local.yaml":              cm("e", "1"),
		"excluded/f.yaml":         cm("f", "1"),
		"package.json":            `{"name": "x"}`,
		"chart/Chart.yaml":        "apiVersion: v2\nname: x\n",
		"chart/templates/x.yaml":  "{{ .x }}",
		"lists/dashboard.json":    "[1]",
		"lists/numbers/four.yaml": "4\n",
		"lists/values.yaml":       "replicas: 1\n",
		"tools/kind.yaml":         "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: []\n",
		"tools/kubeconfig.yaml":   "apiVersion: v1\nkind: Config\nclusters: []\n",
		"tools/skaffold.yaml":     "apiVersion: skaffold/v4beta11\nkind: Config\n",
		"tools/kubelet.yaml":      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	s, err := NewScanner(Config{Dirs: []string{dir}, Patterns: []string{"/excluded"}, Watch: func(string, string) {}, Now: time.Now})
	must(t, err)
	snapshot := s.Scan()
	var objects, notices []string
	for _, src := range snapshot.Sources {
		for _, o := range src.Objects {
			objects = append(objects, o.Unstructured.GetName())
		}
		if len(src.Faults) > 0 && !src.Alien {
			t.Errorf("faults of %s: %v", src.Shown, src.Faults)
		}
	}
	slices.Sort(objects)
	if diff := cmp.Diff([]string{"a", "c", "e"}, objects); diff != "" {
		t.Error(diff)
	}
	for _, f := range snapshot.Notices {
		notices = append(notices, strings.ReplaceAll(Text(f), dir, "DIR"))
	}
	want := []string{
		"DIR/chart: this is a Helm chart, which is not applied as it is: helm template DIR/chart | linkerd-lite up -",
		"no Kubernetes objects are in DIR/lists/dashboard.json, DIR/lists/numbers/four.yaml, DIR/lists/values.yaml and 5 more: left out; .linkerdliteignore or --exclude can say so",
	}
	if diff := cmp.Diff(want, notices); diff != "" {
		t.Error(diff)
	}
}

// A file that was a manifest is none of those: what it had is not to be lost.
func TestNotAlien(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	must(t, os.WriteFile(path, []byte(cm("a", "1")), 0o644))
	s, err := NewScanner(Config{Dirs: []string{dir}, Watch: func(string, string) {}, Now: time.Now})
	must(t, err)
	s.Scan()
	must(t, os.WriteFile(path, []byte("x: 1\n"), 0o644))
	if src := s.Scan().Source(path); src.Alien || len(src.Faults) != 1 || len(src.Objects) != 1 {
		t.Errorf("%+v", src)
	}
}

// The standard input is a file that is read once.
func TestStdin(t *testing.T) {
	rulebook.Covers(t, "C18")
	must(t, CheckDirs([]string{"-"}))
	s, err := NewScanner(Config{Dirs: []string{"-"}, Stdin: strings.NewReader(docs(cm("a", "1"), cm("b", "1"))), Watch: func(string, string) {}, Now: time.Now})
	must(t, err)
	first := s.Scan()
	if src := first.Source("-"); src == nil || len(src.Objects) != 2 || !first.Saved["-"] {
		t.Fatalf("%+v", src)
	}
	again := s.Scan()
	if again.Source("-") != first.Source("-") || again.Saved["-"] || again.Place("-").Foreign {
		t.Error("it is not the same the second time")
	}
	broken, err := NewScanner(Config{Dirs: []string{"-"}, Stdin: strings.NewReader("a: ["), Watch: func(string, string) {}, Now: time.Now})
	must(t, err)
	if got := broken.Scan().Source("-").Faults; len(got) != 1 || Text(got[0]) != "standard input:1: did not find expected node content" {
		t.Errorf("faults are %v", got)
	}
}
