package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server until the end of the test.
func start(t *testing.T, config Config) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config.Listener, config.Client = listener, newClient(t)
	config.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	parts.Start(t, 10*time.Second, server.Run)
	return server
}

func newClient(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client is the API server's.
func client(t *testing.T, server *Server) *http.Client {
	t.Helper()
	return clientWith(t, server, server.config.Client.TLS())
}

func clientWith(t *testing.T, server *Server, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(server.CABundle()) {
		t.Fatal("no authority")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// reviewName decides by the name of the request.
func reviewName(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	switch request.Name {
	case "good":
		return Allow("careful")
	case "hostile":
		return &admissionv1.AdmissionResponse{
			Warnings: []string{"title \x1b]0;x\a\nforged line"},
			Result:   &metav1.Status{Message: "first\n\tsecond \x1b[2J\u202e"},
		}
	case "panic":
		panic("on purpose")
	case "nothing":
		return nil
	case "other":
		return Unusable("unsupported kind: ConfigMap..v1.ConfigMap")
	}
	return Deny("name: %s is not good", request.Name)
}

func TestServer(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := start(t, Config{
		Registerer: registry,
		Endpoints: []Endpoint{
			{Name: "controller", Path: "/controller", Review: reviewName},
			{Name: "policy", Path: "/policy", Review: reviewName, Dialect: PolicyDialect},
		},
	})
	http := client(t, server)
	good := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1","name":"good","kind":{"group":"","version":"","kind":""},"resource":{"group":"","version":"","resource":""},"operation":"CREATE","userInfo":{},"object":{"a":1},"oldObject":null,"dryRun":false,"options":null}}`
	tests := []struct {
		name, method, path, body string
		status                   int
		want                     string // parts of the answer, separated by |
		absent                   string
	}{
		{"A01 request null", "POST", "/controller", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`, 400, "no request", ""},
		{"A01 empty uid", "POST", "/controller", strings.Replace(good, "u-1", "", 1), 400, "no uid", ""},
		{"A02 empty body", "POST", "/controller", "", 200, "", "{"},
		{"A03 v1", "POST", "/controller", good, 200, `"apiVersion":"admission.k8s.io/v1"|"request":{"uid":"u-1"|"response":{"uid":"u-1","allowed":true,"warnings":["careful"]}`, ""},
		{"A03 v1beta1", "POST", "/controller", strings.Replace(good, "k8s.io/v1", "k8s.io/v1beta1", 1), 200, `"apiVersion":"admission.k8s.io/v1beta1"|"response":{"uid":"u-1","allowed":true`, ""},
		{"any method", "PUT", "/controller", good, 200, `"allowed":true`, ""},
		{"denied", "POST", "/controller", strings.Replace(good, "good", "bad", 1), 200, `"response":{"uid":"u-1","allowed":false|name: bad is not good`, ""},
		{
			"F8 no control characters", "POST", "/controller", strings.Replace(good, "good", "hostile", 1), 200,
			`"message":"first\n\tsecond \\x1b[2J\\u202e"|"warnings":["title \\x1b]0;x\\a\\nforged line"]`, "",
		},
		{"B38 nil answer", "POST", "/controller", strings.Replace(good, "good", "nothing", 1), 200, `"response":{"uid":"u-1","allowed":true`, ""},
		{"B38 B39 panic", "POST", "/controller", strings.Replace(good, "good", "panic", 1), 200, `"response":{"uid":"u-1","allowed":false|internal error: on purpose`, ""},
		{"B38 cut off", "POST", "/controller", good[:200], 400, `"uid":"u-1","allowed":false`, ""},
		{"B38 wrong type", "POST", "/controller", strings.Replace(good, `"dryRun":false`, `"dryRun":"no"`, 1), 400, `"uid":"u-1","allowed":false`, ""},
		{"not json", "POST", "/controller", "hello", 400, "decode the admission review", ""},
		{"other kind", "POST", "/controller", `{"kind":"Pod","apiVersion":"v1"}`, 400, `kind "Pod"`, ""},
		{"too large", "POST", "/controller", `{"kind":"` + strings.Repeat("a", maxBody) + `"}`, 413, "too large", ""},
		{"P68 GET", "GET", "/policy", "", 404, "", "{"},
		{"P68 POST elsewhere", "POST", "/foo", good, 404, "", "{"},
		{"P69 empty review", "POST", "/policy", `{}`, 200, `"apiVersion":"admission.k8s.io/v1beta1"|"uid":""|"allowed":false|"reason":"InvalidRequest"|"status":"Failure"`, ""},
		{"P69 no body", "POST", "/policy", ``, 200, `"uid":""|"allowed":false`, ""},
		{"P70 unsupported kind", "POST", "/policy", strings.Replace(good, "good", "other", 1), 200, `"uid":"u-1"|"allowed":false|.v1.ConfigMap|"reason":"InvalidRequest"`, `"request"`},
		{"policy allowed", "POST", "/policy", good, 200, `"apiVersion":"admission.k8s.io/v1"|"uid":"u-1","allowed":true`, `"request"`},
		{"policy denied", "POST", "/policy", strings.Replace(good, "good", "bad", 1), 200, `"uid":"u-1","allowed":false|"message":"name: bad is not good"`, `"code"`},
		{"B38 policy cut off", "POST", "/policy", good[:200], 200, `"uid":"u-1","allowed":false`, ""},
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			status, body := call(t, http, test.method, server.URL(test.path), test.body)
			if status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			for part := range strings.SplitSeq(test.want, "|") {
				if !strings.Contains(body, part) {
					t.Errorf("no %s in %s", part, body)
				}
			}
			if test.absent != "" && strings.Contains(body, test.absent) {
				t.Errorf("%s in %s", test.absent, body)
			}
		})
	}
	for name, want := range map[string]float64{"allowed": 4, "denied": 3, "invalid": 8} {
		if got := testutil.ToFloat64(server.metrics.reviews.WithLabelValues("controller", name)); got != want {
			t.Errorf("%v %s reviews, want %v", got, name, want)
		}
	}
}

func call(t *testing.T, client *http.Client, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// Nobody but the API server makes this process compute.
func TestOtherClientsAreRefused(t *testing.T) {
	rulebook.Covers(t, "F7")
	reviewed := make(chan struct{}, 10)
	server := start(t, Config{Endpoints: []Endpoint{{Name: "a", Path: "/", Review: func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		reviewed <- struct{}{}
		return nil
	}}}})
	const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1"}}`
	for name, certificates := range map[string][]tls.Certificate{
		"no certificate":              nil,
		"a certificate like its own":  {newClient(t).TLS()},
		"the server's own":            {server.certificates.current.tls},
		"the authority of the server": {server.certificates.authority.tls},
	} {
		response, err := clientWith(t, server, certificates...).Post(server.URL("/"), "application/json", strings.NewReader(review))
		if err == nil {
			response.Body.Close()
			t.Errorf("%s: answered with %s", name, response.Status)
		}
	}
	if len(reviewed) > 0 {
		t.Error("a review was computed")
	}
	if status, _ := call(t, client(t, server), http.MethodPost, server.URL("/"), review); status != http.StatusOK {
		t.Errorf("the API server is answered with %d", status)
	}
}

// A review ends with the request that asks for it.
func TestReviewEndsWithItsClient(t *testing.T) {
	rulebook.Covers(t, "F7")
	began, ended := make(chan struct{}), make(chan error, 1)
	server := start(t, Config{Endpoints: []Endpoint{{Name: "a", Path: "/", Review: func(ctx context.Context, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a review may take for ever")
		}
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	}}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1"}}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL("/"), body)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if response, err := client(t, server).Do(request); err == nil {
			response.Body.Close()
		}
	}()
	<-began
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("the review ended with %v", err)
	}
	<-asked
}

func TestTLS12IsRefused(t *testing.T) {
	server := start(t, Config{Endpoints: []Endpoint{{Name: "a", Path: "/", Review: reviewName}}})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CABundle())
	conn, err := tls.Dial("tcp", server.config.Listener.Addr().String(), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12})
	if err == nil {
		conn.Close()
		t.Fatal("TLS 1.2 was accepted")
	}
}

func TestNewRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	endpoint := Endpoint{Name: "a", Path: "/", Review: reviewName}
	for name, config := range map[string]Config{
		"no listener":    {Client: &Client{}, Endpoints: []Endpoint{endpoint}},
		"no client":      {Listener: listener, Endpoints: []Endpoint{endpoint}},
		"relative path":  {Listener: listener, Client: &Client{}, Endpoints: []Endpoint{{Name: "a", Path: "a", Review: reviewName}}},
		"no function":    {Listener: listener, Client: &Client{}, Endpoints: []Endpoint{{Name: "a", Path: "/"}}},
		"the same paths": {Listener: listener, Client: &Client{}, Endpoints: []Endpoint{endpoint, endpoint}},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRecoverUID(t *testing.T) {
	for body, want := range map[string]string{
		`{"request":{"uid":"u"`:                             "u",
		`{"request":{"object":{"uid":"x"},"uid":"u"},"a":`:  "u",
		`{"a":[{"uid":"x"}],"request":{"b":[1],"uid":"u"`:   "u",
		`{"uid":"x","request":{"object":{"uid":"y"}}}`:      "",
		`{"a":"request","b":{"uid":"x"}}`:                   "",
		`[{"request":{"uid":"x"}}]`:                         "",
		`{"request":[{"uid":"x"}]}`:                         "",
		`{"request":{"uid":1,"name":"uid","userInfo":"u"}}`: "",
		`}`: "",
		``:  "",
	} {
		got := ""
		if review := recoverUID([]byte(body)); review.Request != nil {
			got = string(review.Request.UID)
		}
		if got != want {
			t.Errorf("%s: uid %q, want %q", body, got, want)
		}
	}
}

// FuzzDecodeReview checks that no body panics, and that a UID that decodes is also the one that is recovered.
func FuzzDecodeReview(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `null`, `[]`, `{"request":null}`, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":{}}}`,
		`{"request":{"uid":"u","object":[[[{"uid":`, `{"request":{"uid":"a"},"request":{"uid":"b"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		review, err := decodeReview(body)
		if review == nil {
			t.Fatal("no review")
		}
		if err != nil {
			return
		}
		if review.Request.UID == "" {
			t.Fatal("a request without uid was taken")
		}
		response := respond(context.Background(), func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return nil
		}, review.Request, slog.New(slog.DiscardHandler))
		if diff := cmp.Diff(&admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}, response); diff != "" {
			t.Fatal(diff)
		}
		review.Response = response
		data, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeReview(data)
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if again.Request.UID != review.Request.UID && !bytes.ContainsRune([]byte(review.Request.UID), '\ufffd') {
			t.Fatalf("uid %q became %q", review.Request.UID, again.Request.UID)
		}
	})
}
