package examples

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what commands print into READMEs")

// TestPolicy runs every command of the README's console blocks, in order, and
// compares what it prints.
func TestPolicy(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join("examples", "policy")
	if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("..", "..", dir))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", dir, "README.md")
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t, root)
	var printed []string
	inside := false
	lines := strings.Split(string(readme), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		printed = append(printed, line)
		if strings.HasPrefix(line, "```") {
			inside = line == "```console"
		}
		command, ok := strings.CutPrefix(line, "$ ")
		if !inside || !ok {
			continue
		}
		var want []string
		for i+1 < len(lines) && lines[i+1] != "```" && !strings.HasPrefix(lines[i+1], "$ ") {
			i++
			want = append(want, lines[i])
		}
		if up, ok := strings.CutPrefix(command, program+" up "); ok {
			printed = append(printed, want...)
			p := u.start(program, "up", up, "--ephemeral", "--random-ports")
			u.env = append(u.env, "LINKERD_LITE_DATA_DIR="+filepath.Dir(p.await(`^kubeconfig +(.*)$`)[1]))
			p.await(`^ready in `)
			continue
		}
		got := u.settled(command, want)
		printed = append(printed, got...)
		if diff := cmp.Diff(want, got); diff != "" && !*update {
			t.Errorf("%s (-README +printed):\n%s", command, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(printed, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// settled runs a command line and returns the lines of both its outputs.
// A command that only asks is asked again while the answer is another one: what
// was applied takes a moment to get around.
func (u *user) settled(command string, want []string) []string {
	u.t.Helper()
	deadline := time.Now().Add(patience / 4)
	asks := strings.HasPrefix(command, program+" diagnostics")
	if *update {
		deadline = time.Now().Add(2 * time.Second)
	}
	for {
		text, _ := u.try("sh", "-c", command+" 2>&1")
		got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if !asks || !time.Now().Before(deadline) || !*update && cmp.Equal(want, got) {
			return got
		}
	}
}
