package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Go compiles Kubernetes once for each value of CGO_ENABLED, so all that a
// reader is told to run, and all that runs in CI, has the same one. Only the
// race detector needs another, and it is for packages without Kubernetes.
func TestBuildLinesShareACache(t *testing.T) {
	rulebook.Covers(t, "C4")
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "examples", "*", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`\bgo (run|build|install|test) `)
	checked := 0
	for _, file := range append(files, filepath.Join(root, "README.md"), filepath.Join(root, ".ci", "run")) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		exported := false
		for n, text := range strings.Split(string(data), "\n") {
			text = strings.TrimSpace(text)
			exported = exported || strings.HasSuffix(text, "export CGO_ENABLED=0")
			command, isCommand := strings.CutPrefix(text, "$ ")
			if !isCommand {
				command, isCommand = strings.CutPrefix(text, "- run: ")
			}
			if !(isCommand || strings.HasSuffix(file, "run")) || strings.HasPrefix(command, "#") || !line.MatchString(command) {
				continue
			}
			checked++
			race := strings.HasPrefix(command, "CGO_ENABLED=1 go test -race ")
			if !exported && !strings.HasPrefix(command, "CGO_ENABLED=0 ") || !race && strings.Contains(command, "CGO_ENABLED=1") {
				t.Errorf("%s:%d: %s", file, n+1, text)
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d commands found", checked)
	}
}
