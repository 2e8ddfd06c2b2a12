package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An API server of one's own on this machine is asked in the name of whoever asks, by
// a client that it can know by what the cluster publishes; both also after a restart.
func TestAggregatedServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts clusters")
	}
	asked := make(chan *http.Request, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "own.example.com/v1", "resources": []}`)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	_, portText, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		t.Fatal(err)
	}

	dataDir := filepath.Join(t.TempDir(), "d")
	authority := ""
	for round := range 2 {
		p := launch(t, dataDir, "--unsafe-no-fsync")
		p.wait(t)
		var trusted map[string]string
		within(t, "what aggregated servers need to know is published", func() bool {
			published, err := p.client(t).CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
			if err == nil {
				trusted = published.Data
			}
			return trusted["requestheader-client-ca-file"] != ""
		})
		for key, want := range map[string]string{
			"requestheader-allowed-names":        `["front-proxy-client"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		} {
			if trusted[key] != want {
				t.Errorf("%s is %s, want %s", key, trusted[key], want)
			}
		}
		if trusted["client-ca-file"] == "" || trusted["client-ca-file"] == trusted["requestheader-client-ca-file"] {
			t.Error("whoever has a certificate of the cluster could be anybody")
		}
		if round == 1 && trusted["requestheader-client-ca-file"] != authority {
			t.Error("the authority is another one after a restart")
		}
		authority = trusted["requestheader-client-ca-file"]
		if round == 0 {
			addAggregated(t, p, port)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(authority)) {
			t.Fatalf("no certificate in %q", authority)
		}
		within(t, "it is asked for whoever asks", func() bool {
			_, err := p.client(t).Discovery().RESTClient().Get().AbsPath("/apis/own.example.com/v1/somethings").DoRaw(t.Context())
			if err != nil {
				return false
			}
			for {
				select {
				case r := <-asked:
					if r.URL.Path != "/apis/own.example.com/v1/somethings" {
						continue // the API server's own questions
					}
					if got := r.Header.Get("X-Remote-User"); got != "linkerd-lite-admin" {
						t.Errorf("it is asked for %q", got)
					}
					if len(r.TLS.PeerCertificates) == 0 {
						t.Fatal("it cannot know who asks")
					}
					client := r.TLS.PeerCertificates[0]
					if _, err := client.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || client.Subject.CommonName != "front-proxy-client" {
						t.Errorf("it is asked by %s: %v", client.Subject, err)
					}
					return true
				default:
					return false
				}
			}
		})
		p.stop(t, syscall.SIGTERM)
	}
}

// addAggregated makes port of this machine the server of a group.
func addAggregated(t *testing.T, p *process, port int64) {
	t.Helper()
	for _, o := range []struct {
		resource schema.GroupVersionResource
		object   map[string]any
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "services"}, map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "own", "namespace": "default"},
			"spec": map[string]any{"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": port}}},
		}},
		{schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.own.example.com"},
			"spec": map[string]any{
				"group": "own.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
				"service": map[string]any{"namespace": "default", "name": "own", "port": port},
			},
		}},
	} {
		object := &unstructured.Unstructured{Object: o.object}
		if _, err := p.dynamic(t).Resource(o.resource).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
