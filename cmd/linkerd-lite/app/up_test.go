package app

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// What up says to try next can be pasted into a shell, and is short.
func TestNextSteps(t *testing.T) {
	for _, test := range []struct {
		name, dataDir, home string
		running             int
		want                []string
	}{
		{"below the home directory", "/home/a/.local/state/linkerd-lite/shop-d2cf9df5f87a", "/home/a", 1,
			[]string{"  linkerd-lite check", "  export KUBECONFIG=~/.local/state/linkerd-lite/shop-d2cf9df5f87a/kubeconfig"}},
		{"beside another", "/srv/d", "/home/a", 2, []string{"  linkerd-lite check --data-dir /srv/d", "  linkerd-lite kubectl --data-dir /srv/d get pods -A"}},
		{"of another with the same beginning", "/home/abc/d", "/home/a", 1, []string{"  export KUBECONFIG=/home/abc/d/kubeconfig"}},
		{"without a home directory", "/d", "", 1, []string{"  export KUBECONFIG=/d/kubeconfig"}},
		{"with a space", "/home/a/my files", "/home/a", 1, []string{"  export KUBECONFIG=~/'my files/kubeconfig'"}},
		{"with what a shell would run", "/tmp/$(id)", "", 1, []string{"  export KUBECONFIG='/tmp/$(id)/kubeconfig'"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := nextSteps(&datadir.RunInfo{DataDir: test.dataDir, Kubeconfig: test.dataDir + "/kubeconfig"}, test.home, test.running)
			for _, line := range test.want {
				if !strings.Contains(got, "\n"+line+"\n") {
					t.Errorf("no line %q in\n%s", line, got)
				}
			}
		})
	}
}
