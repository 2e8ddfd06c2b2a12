package controllers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// ours are the names of our constructors for controllers of another name there;
// those with "" are run by one of another name, or by other parts.
var ours = map[string]string{
	"certificatesigningrequest-approving-controller": "certificatesigningrequest",
	"certificatesigningrequest-cleaner-controller":   "certificatesigningrequest",
	"certificatesigningrequest-signing-controller":   "certificatesigningrequest",
	"endpointslice-mirroring-controller":             "endpointslicemirroring",
	"garbage-collector-controller":                   "garbage-collector",
	"namespace-controller":                           "namespace",
	"pod-garbage-collector-controller":               "",
	"replicationcontroller-controller":               "replicationcontroller",
	"root-ca-certificate-publisher-controller":       "root-ca-publisher",
}

// docs/controllers.md has a row for each controller of the Kubernetes that is
// linked, and says of each rightly whether it runs.
func TestDocumentNamesEveryController(t *testing.T) {
	text, err := os.ReadFile("../../docs/controllers.md")
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.Contains(cells[1], "-controller") {
			runs[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	made := map[string]constructor{}
	for _, c := range New(Config{}).constructors() {
		made[c.name] = c
	}
	known := controllerNames(t)
	for _, name := range known {
		said, ok := runs[name]
		if !ok {
			t.Errorf("no row for %s", name)
			continue
		}
		delete(runs, name)
		our, renamed := ours[name]
		if !renamed {
			our = strings.TrimSuffix(name, "-controller")
		}
		c, runsHere := made[our]
		delete(ours, name)
		switch {
		case our == "":
			if !strings.HasPrefix(said, "ours") {
				t.Errorf("%s: %q, want ours", name, said)
			}
		case !runsHere:
			if said != "no" {
				t.Errorf("%s: %q, but it does not run", name, said)
			}
		case c.of.Resource != "":
			if !strings.HasPrefix(said, "from the first ") {
				t.Errorf("%s: %q, but it waits for %s", name, said, c.of.Resource)
			}
		case !strings.HasPrefix(said, "yes") && !strings.HasPrefix(said, "ours"):
			t.Errorf("%s: %q, but it runs", name, said)
		}
	}
	if len(known) < 40 {
		t.Errorf("only %d controllers were found", len(known))
	}
	for name := range runs {
		t.Errorf("a row for %s, which there is not", name)
	}
	for name := range ours {
		t.Errorf("%s is called otherwise here, and is not there", name)
	}
}

// controllerNames reads the names from the source of Kubernetes.
func controllerNames(t *testing.T) []string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(dir)), "cmd", "kube-controller-manager", "names", "controller_names.go")
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if name, err := strconv.Unquote(literal.Value); err == nil && strings.HasSuffix(name, "-controller") {
				names = append(names, name)
			}
		}
		return true
	})
	return names
}
