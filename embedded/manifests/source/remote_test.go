package source

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Whatever field names a URL, it is refused before anything is sent.
func TestNothingIsFetched(t *testing.T) {
	rulebook.Covers(t, "F5")
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = w.Write([]byte(cm("remote", "1")))
	}))
	defer server.Close()
	tests := []struct{ name, kustomization, other string }{
		{"resources", "resources: [a.yaml, URL]", ""},
		{"patches", "resources: [a.yaml]\npatches: [{path: 'URL'}]", ""},
		{"patchesJson6902", "resources: [a.yaml]\npatchesJson6902: [{path: 'URL', target: {kind: ConfigMap, name: a, version: v1}}]", ""},
		{"patchesStrategicMerge", "resources: [a.yaml]\npatchesStrategicMerge: ['URL']", ""},
		{"replacements", "resources: [a.yaml]\nreplacements: [{path: 'URL'}]", ""},
		{"openapi", "resources: [a.yaml]\nopenapi: {path: 'URL'}", ""},
		{"configMapGenerator", "configMapGenerator: [{name: g, files: ['u=URL']}]", ""},
		{"configMapGenerator, without a key", "configMapGenerator: [{name: g, files: ['URL']}]", ""},
		{"configMapGenerator, envs", "configMapGenerator: [{name: g, envs: ['URL']}]", ""},
		{"secretGenerator", "secretGenerator: [{name: g, files: ['u=URL']}]", ""},
		{"configurations", "resources: [a.yaml]\nconfigurations: ['URL']", ""},
		{"crds", "resources: [a.yaml]\ncrds: ['URL']", ""},
		{"transformers, in a file", "resources: [a.yaml]\ntransformers: [t.yaml]", "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: t}\npath: URL\n"},
		{"transformers, inline", "resources: [a.yaml]\ntransformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: t}\n  path: URL\n", ""},
		{"generators", "generators: [t.yaml]", "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: t}\nname: g\nfiles: ['u=URL']\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range map[string]string{"kustomization.yaml": test.kustomization + "\n", "a.yaml": cm("a", "1"), "t.yaml": test.other} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(content, "URL", server.URL+"/p")), 0o644))
			}
			_, _, err := build(filepath.Join(dir, "kustomization.yaml"))
			if err == nil || !strings.Contains(err.Error(), "remote resources are not fetched") {
				t.Errorf("error is %v", err)
			}
			if requests > 0 {
				t.Errorf("%d requests", requests)
				requests = 0
			}
		})
	}
}

// Text that only looks like one is no reference.
func TestURLsInText(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(cm("a", "https://example.com")), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(`resources: [a.yaml]
commonAnnotations: {docs: "https://example.com"}
configMapGenerator: [{name: g, literals: ["u=https://example.com"]}]
patches:
- target: {kind: ConfigMap, name: a}
  patch: |-
    - {op: replace, path: /data/v, value: "https://example.com/b"}
`), 0o644))
	if objects, _, err := build(filepath.Join(dir, "kustomization.yaml")); err != nil || len(objects) != 2 {
		t.Errorf("%d objects, error %v", len(objects), err)
	}
}
