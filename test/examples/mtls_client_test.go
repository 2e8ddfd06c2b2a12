package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
)

// build builds the program of an example onto the users' PATH.
func build(t *testing.T, example string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "../../examples/"+example)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// promised is what the README in dir says that a command prints.
func promised(t *testing.T, dir, command string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "\n$ "+command)
	if !ok {
		t.Fatalf("the README does not have the command %s", command)
	}
	_, rest, _ = strings.Cut(rest, "\n")
	out, _, _ := strings.Cut(rest, "```")
	return out
}

func TestMTLSClient(t *testing.T) {
	t.Parallel()
	build(t, "mtls-client")
	dir := copyExample(t, "mtls-client")
	u := newUser(t, dir)
	args := []string{"up", "mesh", "--ephemeral", "--random-ports", "--require-client-certificates", "--", "./run.sh"}
	want := promised(t, dir, program+" "+strings.Join(args, " "))
	if diff := cmp.Diff(want, u.run(program, args...)); diff != "" {
		t.Errorf("output (-README +printed):\n%s", diff)
	}
}

// A user's issuer signs, its successor takes over without a restart, one that
// is no good does not, and what tools read follows (identity section 4).
func TestOwnIssuer(t *testing.T) {
	t.Parallel()
	build(t, "mtls-client")
	dir := copyExample(t, "mtls-client")
	u := newUser(t, dir)
	end := time.Now().Add(1000 * time.Hour)
	root, other := identitytest.NewCA(t, "root", end, nil), identitytest.NewCA(t, "other root", end, nil)
	issuer := filepath.Join(dir, "issuer")
	if err := os.Mkdir(issuer, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), root.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(ca *identitytest.CA) { ca.Write(t, issuer, "tls.crt", "tls.key") }
	write(identitytest.NewCA(t, "first", end, root))

	args := []string{"up", "mesh", "--random-ports"}
	// A run with an authority of our own leaves a Secret of another type behind.
	u.run(program, append(args, "--", "true")...)
	up := u.start(program, append(args, "--identity-issuer-dir", "issuer", "--identity-trust-anchors-file", "ca.crt",
		"--identity-scheme", "kubernetes.io/tls", "--identity-issuance-lifetime", "2h")...)
	kubeconfig := up.await(`^kubeconfig +(.*)$`)[1]
	up.await(`^ready in `)
	u.env = append(u.env, "LINKERD_LITE_DATA_DIR="+filepath.Dir(kubeconfig))

	signer := func(want string) {
		t.Helper()
		out := u.run("sh", "-c", `eval "$(linkerd-lite proxy-env mesh/client-0)"; mtls-client web.mesh.svc.cluster.local:80`)
		if !strings.Contains(out, fmt.Sprintf("issued by %s, for 2h0m0s\n", want)) || !strings.Contains(out, "10.244.7.1:8080") {
			t.Errorf("the client prints\n%s", out)
		}
	}
	until := func(what, want string, args ...string) {
		t.Helper()
		out := ""
		for deadline := time.Now().Add(patience / 2); time.Now().Before(deadline); {
			if out = u.run(program, args...); strings.Contains(out, want) {
				return
			}
		}
		t.Fatalf("no %s: %s\nprints\n%s", what, strings.Join(args, " "), out)
	}
	event := func(reason string) {
		t.Helper()
		until("event", "deployment/linkerd-identity", "kubectl", "get", "events", "-n", "linkerd", "--field-selector", "reason="+reason)
	}
	signer("first")
	if got := u.run(program, "kubectl", "get", "secret", "-n", "linkerd", "linkerd-identity-issuer", "-o", "jsonpath={.type}"); got != "kubernetes.io/tls" {
		t.Errorf("the issuer's Secret is of type %s", got)
	}
	write(identitytest.NewCA(t, "foreign", end, other))
	event("IssuerUpdateSkipped")
	signer("first")
	write(identitytest.NewCA(t, "second", end, root))
	event("IssuerUpdated")
	signer("second")
	until("new issuer in the Secret", "CN=second", "identity", "certs")
	until("new issuer in the values", "scheme: kubernetes.io/tls", "kubectl", "get", "configmap", "-n", "linkerd", "linkerd-config", "-o", "jsonpath={.data.values}")
	if out := u.run(program, "kubectl", "get", "events", "-n", "mesh", "--field-selector", "reason=IssuedLeafCertificate"); !strings.Contains(out, "client.mesh.serviceaccount") {
		t.Errorf("events of the service account:\n%s", out)
	}
}
