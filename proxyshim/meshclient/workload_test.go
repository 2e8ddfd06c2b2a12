package meshclient_test

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

const name = "web.default.serviceaccount.identity.linkerd.cluster.local"

// environment is that of a proxy whose files are in dir.
func environment(t *testing.T, dir string) map[string]string {
	env := map[string]string{}
	for variable, value := range map[string]string{
		"IDENTITY_DIR": dir, "IDENTITY_TOKEN_FILE": filepath.Join(dir, "token"), "IDENTITY_LOCAL_NAME": name,
		"IDENTITY_TRUST_ANCHORS": string(identitytest.NewCA(t, "root", time.Now().Add(time.Hour), nil).PEM()),
		"DESTINATION_SVC_ADDR":   "127.0.0.1:8086", "DESTINATION_SVC_NAME": "d", "DESTINATION_CONTEXT": "{}",
		"POLICY_SVC_ADDR": "127.0.0.1:8090", "POLICY_SVC_NAME": "p", "POLICY_WORKLOAD": "{}",
		"IDENTITY_SVC_ADDR": "127.0.0.1:8080", "IDENTITY_SVC_NAME": "i",
	} {
		env["LINKERD2_PROXY_"+variable] = value
	}
	return env
}

func TestFromEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := proxyenv.WriteIdentity(dir, name); err != nil {
		t.Fatal(err)
	}
	env := environment(t, dir)
	w, err := meshclient.FromEnvironment(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if w.Request.Identity != name || w.Destination.Addr != "127.0.0.1:8086" || w.Policy.ServerName != "p" || w.Identity.ServerName != "i" || w.TokenFile != filepath.Join(dir, "token") {
		t.Errorf("the workload is %+v", w)
	}
	if _, err := w.Certify(t.Context()); err == nil || !strings.Contains(err.Error(), "read token") {
		t.Errorf("without a token: %v", err)
	}
}

func TestFromEnvironmentRefuses(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(t *testing.T, dir string, env map[string]string)
	}{
		{"no address", "LINKERD2_PROXY_POLICY_SVC_ADDR is not set: eval", func(_ *testing.T, _ string, env map[string]string) {
			delete(env, "LINKERD2_PROXY_POLICY_SVC_ADDR")
		}},
		{"no anchors", "no certificate in PEM", func(_ *testing.T, _ string, env map[string]string) {
			env["LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS"] = "x"
		}},
		{"request of another identity", "not for other", func(_ *testing.T, _ string, env map[string]string) {
			env["LINKERD2_PROXY_IDENTITY_LOCAL_NAME"] = "other"
		}},
		{"key of another request", "not made with the key", func(t *testing.T, dir string, _ map[string]string) {
			other := t.TempDir()
			if err := proxyenv.WriteIdentity(other, name); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(other, "key.p8"), filepath.Join(dir, "key.p8")); err != nil {
				t.Fatal(err)
			}
		}},
		{"PEM instead of DER", "read key", func(t *testing.T, dir string, _ map[string]string) {
			data, err := os.ReadFile(filepath.Join(dir, "key.p8"))
			if err != nil {
				t.Fatal(err)
			}
			text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data})
			if err := os.WriteFile(filepath.Join(dir, "key.p8"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"no request", "read certificate request", func(t *testing.T, dir string, _ map[string]string) {
			if err := os.Remove(filepath.Join(dir, "csr.der")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := proxyenv.WriteIdentity(dir, name); err != nil {
				t.Fatal(err)
			}
			env := environment(t, dir)
			test.change(t, dir, env)
			_, err := meshclient.FromEnvironment(func(name string) string { return env[name] })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
