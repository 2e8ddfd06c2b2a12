package examples

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestMulticluster(t *testing.T) {
	t.Parallel()
	u := newUser(t, copyExample(t, "multicluster"))
	out := u.run("./run.sh")
	// What differs from run to run.
	out = regexp.MustCompile(`web-[0-9a-z]+-[0-9a-z]{5}\b`).ReplaceAllString(out, "POD")
	out = regexp.MustCompile(`(10\.\d+)\.\d+\.\d+`).ReplaceAllString(out, "$1.IP")
	out = regexp.MustCompile(` +`).ReplaceAllString(out, " ")
	want := `secret/cluster-credentials-east created
# web-east
NAMESPACE IP PORT POD SERVICE IDENTITY
shop 10.11.IP 8080 POD web.shop default.shop.serviceaccount.identity.linkerd.east.example
shop 10.11.IP 8080 POD web.shop default.shop.serviceaccount.identity.linkerd.east.example
# web-federated
NAMESPACE IP PORT POD SERVICE IDENTITY
shop 10.11.IP 8080 POD web.shop default.shop.serviceaccount.identity.linkerd.east.example
shop 10.11.IP 8080 POD web.shop default.shop.serviceaccount.identity.linkerd.east.example
shop 10.22.IP 8080 POD web.shop default.shop.serviceaccount.identity.linkerd.west.example
`
	// Rows are sorted by the pods' random names.
	if diff := cmp.Diff(sortedLines(want), sortedLines(out)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// Two clusters with issuers of one root, and a gateway between them.
func TestOneRoot(t *testing.T) {
	rulebook.Covers(t, "H9")
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl")
	}
	u := newUser(t, copyExample(t, "multicluster"))
	out := u.run("./one-root.sh")
	out = regexp.MustCompile(`(10\.\d+)\.\d+\.\d+`).ReplaceAllString(out, "$1.IP")
	out = regexp.MustCompile(` +`).ReplaceAllString(out, " ")
	out = regexp.MustCompile(` ?= ?`).ReplaceAllString(out, "=") // versions of openssl differ
	want := `secret/cluster-credentials-east created
# web-gateway
NAMESPACE IP PORT POD SERVICE IDENTITY
shop 10.11.IP 4143 web-gateway.shop linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.east.example
# what proxies trust
the same root in both
issuer=CN=root.linkerd.example
subject=CN=identity.linkerd.east.example
issuer=CN=root.linkerd.example
subject=CN=identity.linkerd.west.example
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func sortedLines(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}

// TestMulticlusterFollows changes both clusters under one federated stream.
func TestMulticlusterFollows(t *testing.T) {
	t.Parallel()
	u := newUser(t, copyExample(t, "multicluster"))
	run := u.start("./run.sh", "sh", "-c", `echo "east $EAST_KUBECONFIG"; echo "west $KUBECONFIG"
exec linkerd-lite diagnostics endpoints -w web-federated.shop.svc.cluster.local:80`)
	east := filepath.Dir(run.await(`^east (.*)$`)[1])
	west := filepath.Dir(run.await(`^west (.*)$`)[1])
	for range 3 {
		run.await(`^add .* 10\.(11|22)\.`)
	}
	u.run(program, "kubectl", "--data-dir", east, "-n", "shop", "scale", "deploy/web", "--replicas=3")
	run.await(`^add .* 10\.11\.`)
	u.run(program, "kubectl", "--data-dir", west, "-n", "shop", "scale", "deploy/web", "--replicas=0")
	run.await(`^remove .* 10\.22\.`)
	u.run(program, "kubectl", "--data-dir", west, "-n", "linkerd", "delete", "secret", "cluster-credentials-east")
	for range 3 {
		run.await(`^remove .* 10\.11\.`)
	}
	// SIGTERM is passed on to the innermost command, and 128+15 comes back out.
	if code := run.stop(syscall.SIGTERM); code != 143 {
		t.Errorf("exit code %d after SIGTERM, want 143:\n%s", code, run.output())
	}
}
