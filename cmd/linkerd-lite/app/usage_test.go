package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Whatever is wrong with how the program is called ends with 2, before
// anything is started or asked, and the last line names what is wrong.
func TestWrongUsage(t *testing.T) {
	rulebook.Covers(t, "C10")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("LINKERD_LITE_DATA_DIR", "")
	dir := t.TempDir()
	for _, test := range []struct{ args, want string }{
		{"upp", `unknown command "upp" for "linkerd-lite"; did you mean up?`},
		{"--no-such-flag", "unknown flag"},
		{"check extra", `unknown command "extra" for "linkerd-lite check"`},
		{"check -o xml", `output format "xml"`},
		{"check --wait soon", "--wait"},
		{"diagnostics endpointz", `unknown command "endpointz" for "linkerd-lite diagnostics"; did you mean endpoints?`},
		{"diagnostics endpoints", "requires at least 1 arg"},
		{"diagnostics endpoints -o xml a:1", `output format "xml"`},
		{"diagnostics endpoints -w -o xml a:1", `output format "xml"`},
		{"diagnostics profile", "accepts 1 arg"},
		{"diagnostics profile -o yaml a:1", "always json"},
		{"diagnostics policy x 1", "must be TYPE/NAME"},
		{"diagnostics policy svc/x http", "must be a number"},
		{"diagnostics policy svc/x", "accepts 2 arg"},
		{"diagnostics policy svc/x 1 -o wide", `output format "wide"`},
		{"identity certz", `unknown command "certz"`},
		{"identity token", "accepts 1 arg"},
		{"identity token pod", "NAMESPACE/NAME"},
		{"identity csr a/b/c", "NAMESPACE/NAME"},
		{"identity certs extra", `unknown command "extra"`},
		{"proxy-env", "accepts 1 arg"},
		{"proxy-env pod", "NAMESPACE/NAME"},
		{"proxy-env a/b -o xml", "xml"},
		{"sandbox", "requires at least 1 arg"},
		{"sandbox --pod-cidr=x -- true", "--pod-cidr=x"},
		{"serve x", `unknown command "x"`},
		{"serve", "needs an API server"},
		{"version x", `unknown command "x"`},
		{"list x", `unknown command "x"`},
		{"list -o yaml", "--output=yaml: must be table or json"},
		{"stop x", `unknown command "x"`},
		{"stop --all --data-dir d", "exclude each other"},
		{"up DIR --", "no COMMAND"},
		{"up DIR -o yaml", "--output=yaml"},
		{"up DIR --default-policy open", "--default-policy=open: must be all-unauthenticated, "},
		{"up DIR --identity-addr 1", "--identity-addr=1: must be IP:PORT"},
		{"up DIR --admin-addr 0.0.0.0:1", "only loopback"},
		{"up DIR --node a --node a", "--node=a: there is a node of that name"},
		{"up DIR --node A_b", "--node=A_b: a node needs a DNS name"},
		{"up DIR --cluster-domain x_y", "--cluster-domain=x_y: must be a DNS name"},
		{"up DIR --identity-trust-domain x_y", "--identity-trust-domain=x_y: must be a DNS name"},
		{"up DIR --controller-namespace a.b", "--controller-namespace=a.b: must be the name of a namespace"},
		{"up DIR --global-egress-network-namespace A", "must be the name of a namespace"},
		{"up DIR --meshed-http2-client-params {", "--meshed-http2-client-params={: must be an object in JSON"},
		{"up DIR --pod-cidr=10.1.1.1", "--pod-cidr=10.1.1.1: must be one range"},
		{"up DIR --cluster-networks x", "--cluster-networks=x"},
		{"up DIR --log-level loud", "--log-level=loud"},
		{"up DIR --ephemeral --data-dir d", "exclude each other"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := strings.Fields(strings.ReplaceAll(test.args, "DIR", dir))
			if test.args == "serve" {
				args = append(args, "--kubeconfig=")
			}
			code := Main(args, nil, &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), test.want) || stdout.Len() > 0 {
				t.Errorf("exit code %d, want %d; said %q, want %q; stdout %q", code, exitUsage, &stderr, test.want, &stdout)
			}
		})
	}
}

// The arguments of kubectl may have our flag anywhere.
func TestTakeDataDir(t *testing.T) {
	rulebook.Covers(t, "C11")
	for _, test := range []struct{ args, dir, rest string }{
		{"get pods", "", "get pods"},
		{"--data-dir d get pods", "d", "get pods"},
		{"get pods --data-dir d -A", "d", "get pods -A"},
		{"get pods --data-dir=d", "d", "get pods"},
		{"run x -- prog --data-dir=d", "", "run x -- prog --data-dir=d"},
		{"get --data-dir", "", "get --data-dir"},
	} {
		dir, rest := takeDataDir(strings.Fields(test.args))
		if dir != test.dir || strings.Join(rest, " ") != test.rest {
			t.Errorf("%q: directory %q, rest %q", test.args, dir, rest)
		}
	}
}

// What kubectl does without a cluster works without an instance; the rest
// says that nothing is running. The user's own kubeconfig is not read.
func TestKubectlWithoutInstance(t *testing.T) {
	rulebook.Covers(t, "B88")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("LINKERD_LITE_DATA_DIR", "")
	t.Setenv("KUBECONFIG", filepath.Join(home, "mine"))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kustomization.yaml": "resources: [web.yaml]\nnamePrefix: my-\n",
		"web.yaml":           "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"kustomize " + dir, "name: my-web", "", 0},
		{"create deployment web --image=x --dry-run=client -o yaml", "kind: Deployment", "", 0},
		{"-v=0 create configmap c --from-literal=a=b --dry-run=client -o name", "configmap/c", "", 0},
		{"version --client", "Client Version: v", "", 0},
		{"completion bash", "bash completion", "", 0},
		{"--help", "kubectl controls", "", 0},
		{"get pods", "", "nothing is running: start an instance", 1},
		{"apply -f " + dir + "/web.yaml", "", "nothing is running", 1},
		{"apply -f " + dir + "/web.yaml --dry-run=client", "", "nothing is running", 1},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := Main(append([]string{"kubectl"}, strings.Fields(test.args)...), nil, &stdout, &stderr)
			if code != test.code || !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("exit code %d, want %d; stdout %.300q, want %q; stderr %.300q, want %q", code, test.code, &stdout, test.stdout, &stderr, test.stderr)
			}
		})
	}
}

// Without an instance check answers at once, and says it once.
func TestCheckWithoutInstance(t *testing.T) {
	rulebook.Covers(t, "C17")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("LINKERD_LITE_DATA_DIR", "")
	var stdout, stderr bytes.Buffer
	code := Main([]string{"check"}, nil, &stdout, &stderr)
	if code != exitFailure || strings.Count(stdout.String(), "nothing is running") != 1 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}
