package proxyenv_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

const webName = "web.default.serviceaccount.identity.linkerd.cluster.local"

// web is a pod as the injector leaves it.
func web() *corev1.Pod {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	value := func(name, value string) corev1.EnvVar {
		return corev1.EnvVar{Name: "LINKERD2_PROXY_" + name, Value: value}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName: "lite", ServiceAccountName: "web",
			InitContainers: []corev1.Container{{Name: "linkerd-proxy", Env: []corev1.EnvVar{
				field("_pod_name", "metadata.name"), field("_pod_nodeName", "spec.nodeName"), field("_pod_ips", "status.podIPs"),
				value("INBOUND_LISTEN_ADDR", "0.0.0.0:4143"),
				value("ADMIN_LISTEN_ADDR", "[::]:4191"),
				value("OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140"),
				value("INBOUND_IPS", "$(_pod_ips)"),
				value("DESTINATION_SVC_ADDR", "linkerd-dst-headless.linkerd.svc.cluster.local.:8086"),
				value("DESTINATION_CONTEXT", `{"ns":"default", "nodeName":"$(_pod_nodeName)", "pod":"$(_pod_name)"}`+"\n"),
				value("IDENTITY_LOCAL_NAME", webName),
				value("ACCESS_LOG", "$$(x) $(unknown)"),
			}}},
			Containers: []corev1.Container{{Name: "app"}},
		},
		Status: corev1.PodStatus{PodIP: "10.244.0.3", PodIPs: []corev1.PodIP{{IP: "10.244.0.3"}, {IP: "fd00::3"}}},
	}
}

func input(pod *corev1.Pod) proxyenv.Input {
	return proxyenv.Input{
		Pod: pod, Destination: "127.0.0.1:8086", Policy: "127.0.0.1:8090", Identity: "127.0.0.1:8080",
		Anchors: "-----BEGIN CERTIFICATE-----\nit's\n", Dir: "/state/proxies/default/web-0",
	}
}

func TestEnvironment(t *testing.T) {
	vars, _, err := proxyenv.Environment(input(web()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range vars {
		got[strings.TrimPrefix(v.Name, "LINKERD2_PROXY_")] = v.Value
	}
	want := map[string]string{
		"INBOUND_LISTEN_ADDR":    "10.244.0.3:4143",
		"ADMIN_LISTEN_ADDR":      "[fd00::3]:4191",
		"CONTROL_LISTEN_ADDR":    "10.244.0.3:4190",
		"OUTBOUND_LISTEN_ADDR":   "127.0.0.1:4140",
		"INBOUND_IPS":            "10.244.0.3,fd00::3",
		"DESTINATION_SVC_ADDR":   "127.0.0.1:8086",
		"POLICY_SVC_ADDR":        "127.0.0.1:8090",
		"IDENTITY_SVC_ADDR":      "127.0.0.1:8080",
		"DESTINATION_CONTEXT":    `{"ns":"default", "nodeName":"lite", "pod":"web-0"}`,
		"IDENTITY_LOCAL_NAME":    webName,
		"IDENTITY_DIR":           "/state/proxies/default/web-0",
		"IDENTITY_TOKEN_FILE":    "/state/proxies/default/web-0/token",
		"IDENTITY_TRUST_ANCHORS": "-----BEGIN CERTIFICATE-----\nit's\n",
		"IDENTITY_MIN_REFRESH":   "1s",
		"ACCESS_LOG":             "$(x) $(unknown)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment differs (-want +got):\n%s", diff)
	}
}

func TestEnvironmentOfSecondProxy(t *testing.T) {
	in := input(web())
	in.Outbound = "127.0.0.1:24140"
	vars, _, err := proxyenv.Environment(in)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range vars {
		if strings.HasPrefix(v.Name, "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR") {
			n++
			if v.Value != "127.0.0.1:24140" {
				t.Errorf("%s is %s", v.Name, v.Value)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d outbound addresses are set, want both variables", n)
	}
}

// A proxy injected for both families listens where destination sends others.
func TestListenAddresses(t *testing.T) {
	rulebook.Covers(t, "H4")
	for _, test := range []struct {
		name, container, listen, want string
		ips                           []corev1.PodIP
	}{
		{"IPv4 alone", "0.0.0.0:4143", "", "10.244.0.3:4143", []corev1.PodIP{{IP: "10.244.0.3"}, {IP: "fd00::3"}}},
		{"both families", "[::]:5143", "", "[fd00::3]:5143", []corev1.PodIP{{IP: "10.244.0.3"}, {IP: "fd00::3"}}},
		{"both families, a pod without IPv6", "[::]:4143", "", "10.244.0.3:4143", []corev1.PodIP{{IP: "10.244.0.3"}}},
		{"as asked for", "0.0.0.0:5143", "::", "[::]:5143", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input(web())
			in.Pod.Status.PodIPs = test.ips
			in.Pod.Spec.InitContainers[0].Env[3].Value = test.container
			if test.listen != "" {
				in.Listen = netip.MustParseAddr(test.listen)
			}
			vars, _, err := proxyenv.Environment(in)
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(vars, func(v proxyenv.Var) bool { return v.Name == "LINKERD2_PROXY_INBOUND_LISTEN_ADDR" }); i < 0 || vars[i].Value != test.want {
				t.Errorf("listens on %v, want %s", vars[i], test.want)
			}
		})
	}
}

func TestEnvironmentRefuses(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(*corev1.Pod)
	}{
		{"not injected", "linkerd.io/inject", func(p *corev1.Pod) { p.Spec.InitContainers = nil }},
		{"no address", "address", func(p *corev1.Pod) { p.Status.PodIP = "" }},
		{"value of a secret", "something else", func(p *corev1.Pod) {
			p.Spec.InitContainers[0].Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}
		}},
		{"unknown field", "metadata.labels", func(p *corev1.Pod) { p.Spec.InitContainers[0].Env[0].ValueFrom.FieldRef.FieldPath = "metadata.labels" }},
		{"broken address", "INBOUND_LISTEN_ADDR", func(p *corev1.Pod) { p.Spec.InitContainers[0].Env[3].Value = "x" }},
		{"no identity", "IDENTITY_LOCAL_NAME", func(p *corev1.Pod) { p.Spec.InitContainers[0].Env[9].Value = "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := web()
			test.change(pod)
			if _, _, err := proxyenv.Environment(input(pod)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// A manifest's variables, by annotation or by hand, run no command in the
// shell that evaluates the output, whatever the format.
func TestManifestRunsNoCommands(t *testing.T) {
	rulebook.Covers(t, "F2")
	witness := filepath.Join(t.TempDir(), "witness")
	touch := "touch " + witness
	pod := web()
	env := &pod.Spec.InitContainers[0].Env
	*env = append(*env, []corev1.EnvVar{
		{Name: "LINKERD2_PROXY_A;" + touch + ";B", Value: "x"},
		{Name: "LINKERD2_PROXY_A=$(" + touch + ")", Value: "x"},
		{Name: "LINKERD2_PROXY_A`" + touch + "`", Value: "x"},
		{Name: "LINKERD2_PROXY_A\n" + touch + "\n", Value: "x"},
		{Name: "LINKERD2_PROXY_A[$(" + touch + ")]", Value: "x"},
		{Name: "LINKERD2_PROXY_A'" + touch + "'", Value: "x"},
		{Name: "LINKERD2_PROXY_A-B", Value: "x"},
		{Name: "LINKERD2_PROXY_NUL", Value: "'\x00;" + touch},
		{Name: "LINKERD2_PROXY_TITLE", Value: "\x1b]0;title\a"},
	}...)
	kept := map[string]string{
		"QUOTE": "';" + touch + ";'", "DOLLAR": "$$(" + touch + ")", "TICKS": "`" + touch + "`", "LINES": "a\n" + touch + "\n b\t'",
		"BACKSLASH": `\';` + touch, "DOCKER": "x' ; " + touch + " #",
	}
	for name, value := range kept {
		*env = append(*env, corev1.EnvVar{Name: "LINKERD2_PROXY_" + name, Value: value})
	}
	vars, leftOut, err := proxyenv.Environment(input(pod))
	if err != nil {
		t.Fatal(err)
	}
	if len(leftOut) != 9 || strings.ContainsAny(strings.Join(leftOut, ""), "\n\x00\x1b\a") {
		t.Errorf("left out, one printable line each: %q", leftOut)
	}
	for _, shell := range []string{"sh", "bash", "dash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for format, script := range map[string]string{
			"env": "eval \"$TEXT\"", "docker": "eval \"printf '<%s>' $TEXT ARG\"", "json": "printf '%s' \"$TEXT\"",
		} {
			text, err := proxyenv.Format(format, vars)
			if err != nil {
				t.Fatal(err)
			}
			script += `; printf '|%s|%s|' "$LINKERD2_PROXY_QUOTE" "$LINKERD2_PROXY_DOLLAR"`
			cmd := exec.Command(shell, "-c", script)
			cmd.Env = append(os.Environ(), "TEXT="+strings.TrimSuffix(text, "\n"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s, %s: %v: %s", shell, format, err, out)
			}
			want := map[string]string{
				"env":    "|" + kept["QUOTE"] + "|$(" + touch + ")|",
				"docker": "<--env><LINKERD2_PROXY_DOCKER=" + kept["DOCKER"] + ">",
				"json":   `"LINKERD2_PROXY_BACKSLASH": "\\';touch`,
			}[format]
			if !strings.Contains(string(out), want) {
				t.Errorf("%s, %s: the output lacks %q:\n%s", shell, format, want, out)
			}
			if _, err := os.Stat(witness); err == nil {
				t.Fatalf("%s, %s: a command of the manifest ran", shell, format)
			}
		}
	}
	for _, name := range []string{"A;B", "", "1A", "A B"} {
		for _, format := range []string{"env", "docker", "json"} {
			if text, err := proxyenv.Format(format, []proxyenv.Var{{Name: name}}); err == nil {
				t.Errorf("name %q was written as %s: %s", name, format, text)
			}
		}
	}
}

// Values are as long as a program's may be, however they refer to each other.
func TestExpansionIsBounded(t *testing.T) {
	pod := web()
	env := &pod.Spec.InitContainers[0].Env
	name := "_x"
	*env = append(*env, corev1.EnvVar{Name: name, Value: "0123456789"})
	for range 64 {
		*env = append(*env, corev1.EnvVar{Name: name + "x", Value: "$(" + name + ")$(" + name + ")"})
		name += "x"
	}
	if _, _, err := proxyenv.Environment(input(pod)); err == nil || !strings.Contains(err.Error(), "longer than 131072 bytes") {
		t.Errorf("error %v", err)
	}
}

// Of several variables with one name the last counts, as for a kubelet.
func TestLastOfOneNameCounts(t *testing.T) {
	pod := web()
	env := &pod.Spec.InitContainers[0].Env
	*env = append(*env, corev1.EnvVar{Name: "LINKERD2_PROXY_ACCESS_LOG", Value: "json"}, corev1.EnvVar{Name: "LINKERD2_PROXY_IDENTITY_DIR", Value: "/elsewhere"})
	vars, _, err := proxyenv.Environment(input(pod))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, v := range vars {
		got[v.Name] = append(got[v.Name], v.Value)
	}
	for name, want := range map[string]string{"LINKERD2_PROXY_ACCESS_LOG": "json", "LINKERD2_PROXY_IDENTITY_DIR": "/state/proxies/default/web-0"} {
		if diff := cmp.Diff([]string{want}, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What is printed means the same to who reads it, quotes and newlines included.
func TestFormat(t *testing.T) {
	vars := []proxyenv.Var{{Name: "A", Value: "it's\n\"$HOME\" `x`"}, {Name: "B", Value: ""}}
	text, err := proxyenv.Format("env", vars)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", text+`printf '%s|%s' "$A" "$B"`).Output()
	if err != nil || string(out) != vars[0].Value+"|" {
		t.Errorf("a shell reads %q, %v", out, err)
	}
	if text, err = proxyenv.Format("docker", vars); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("sh", "-c", "printf '<%s>' "+text).Output()
	if want := "<--env><A=" + vars[0].Value + "><--env><B=>"; err != nil || string(out) != want {
		t.Errorf("a shell makes of the docker arguments %q, %v, want %q", out, err, want)
	}
	if text, err = proxyenv.Format("json", vars); err != nil {
		t.Fatal(err)
	}
	var values map[string]string
	if err := json.Unmarshal([]byte(text), &values); err != nil || values["A"] != vars[0].Value || len(values) != 2 {
		t.Errorf("JSON is %s, %v", text, err)
	}
	if _, err := proxyenv.Format("yaml", vars); err == nil {
		t.Error("an unknown format was written")
	}
}

func TestWriteIdentity(t *testing.T) {
	dir := proxyenv.Dir(t.TempDir(), "default", "web-0")
	for range 2 { // what is there is overwritten
		if err := proxyenv.WriteIdentity(dir, webName); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	key, err := x509.ParsePKCS8PrivateKey(read("key.p8"))
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.ParseCertificateRequest(read("csr.der"))
	if err != nil {
		t.Fatal(err)
	}
	if !key.(*ecdsa.PrivateKey).PublicKey.Equal(csr.PublicKey) || csr.CheckSignature() != nil {
		t.Error("key and request do not belong together")
	}
	if csr.Subject.CommonName != webName || len(csr.DNSNames) != 1 || csr.DNSNames[0] != webName {
		t.Errorf("the request is for %v", csr.DNSNames)
	}
	if err := proxyenv.WriteToken(dir, "abc"); err != nil {
		t.Fatal(err)
	}
	if got := string(read("token")); got != "abc" {
		t.Errorf("token is %q", got)
	}
}

type accounts struct {
	account string
	request *authenticationv1.TokenRequest
}

func (a *accounts) CreateToken(_ context.Context, account string, request *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	a.account, a.request = account, request
	out := request.DeepCopy()
	out.Status.Token = "abc"
	return out, nil
}

func TestToken(t *testing.T) {
	a := &accounts{}
	token, err := proxyenv.Token(t.Context(), a, "web", web(), time.Hour)
	if err != nil || token != "abc" {
		t.Fatalf("token %q, %v", token, err)
	}
	seconds := int64(3600)
	want := authenticationv1.TokenRequestSpec{
		Audiences: []string{"identity.l5d.io"}, ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "u1"},
	}
	if diff := cmp.Diff(want, a.request.Spec); diff != "" || a.account != "web" {
		t.Errorf("request for %s differs (-want +got):\n%s", a.account, diff)
	}
}
