package dataplane_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// An upgraded connection and a tunnel carry bytes both ways.
func TestUpgradeAndConnect(t *testing.T) {
	for request, answer := range map[string]string{
		"GET /chat HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n": "HTTP/1.1 101 Switching Protocols",
		"CONNECT web:443 HTTP/1.1\r\nHost: web:443\r\n\r\n":                               "HTTP/1.1 200 OK",
	} {
		t.Run(strings.Fields(request)[0], func(t *testing.T) {
			m := newMesh(t)
			m.simple("web", "10.1.0.2:8080")
			m.pod("web", "10.1.0.2")
			m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodConnect {
					w.Header().Set("Connection", "Upgrade")
					w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
					w.WriteHeader(http.StatusSwitchingProtocols)
				} else {
					w.WriteHeader(http.StatusOK)
				}
				conn, buffered, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_ = buffered.Flush()
				_, _ = io.Copy(conn, buffered)
			}))
			conn, err := m.pod("client", "10.1.0.1").connect(t.Context(), "10.96.0.1:80")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			fmt.Fprint(conn, request)
			lines := bufio.NewReader(conn)
			for first := true; ; first = false {
				line, err := lines.ReadString('\n')
				if err != nil || first && strings.TrimSpace(line) != answer {
					t.Fatalf("line %q, error %v", line, err)
				}
				if line == "\r\n" {
					break
				}
			}
			for _, word := range []string{"one\n", "two\n"} {
				fmt.Fprint(conn, word)
				if got, err := lines.ReadString('\n'); err != nil || got != word {
					t.Fatalf("heard %q, error %v", got, err)
				}
			}
		})
	}
}

// Clients without a proxy pass if the policy lets them, by plaintext and by TLS
// that is the application's own.
func TestUnmeshedClients(t *testing.T) {
	m := newMesh(t)
	web := m.pod("web", "10.1.0.2")
	m.say("port:web:8080", server(t, everybody, ""))
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("L5d-Client-Id"), "plain")
	}))
	unmeshed := &pod{mesh: m, ip: web.ip.Next()}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return m.dial(ctx, unmeshed, address)
	}, DisableKeepAlives: true}}
	if res, body := get(t, client, "http://10.1.0.2:8080/", "L5d-Client-Id", "me"); res.StatusCode != 200 || body != "plain" {
		t.Errorf("status %d, body %q", res.StatusCode, body)
	}

	l := m.listen()
	certificate := m.ca.Leaf(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "app.example.com")
	secure := &http.Server{Handler: hello("secure"), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go func() { _ = secure.ServeTLS(l, "", "") }()
	defer secure.Close()
	m.app("10.1.0.2:8443", l.Addr().String())
	roots := x509.NewCertPool()
	roots.AddCert(m.ca.Certificate)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "app.example.com"}
	if res, body := get(t, client, "https://10.1.0.2:8443/"); res.StatusCode != 200 || body != "secure" {
		t.Errorf("by TLS: status %d, body %q", res.StatusCode, body)
	}
}

// TLS is routed by the server name that it asks for.
func TestTLSRoutes(t *testing.T) {
	m := newMesh(t)
	route := func(sni, path string) string {
		return `routes { metadata { default: "` + path + `" } snis { ` + sni + ` } rules { ` + first(path) + ` } }`
	}
	m.say("policy:10.96.0.1:443", policyOf(t, `tls { `+route(`suffix { reverse_labels: "com" reverse_labels: "example" }`, "any:443")+route(`exact: "a.example.com"`, "a:443")+` }`))
	client := m.pod("client", "10.1.0.1")
	roots := x509.NewCertPool()
	roots.AddCert(m.ca.Certificate)
	certificate := m.ca.Leaf(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "a.example.com", "b.example.com")
	for i, name := range []string{"any", "a"} {
		addr := fmt.Sprintf("10.1.0.%d:443", 10+i)
		l := m.listen()
		server := &http.Server{Handler: hello(name), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
		go func() { _ = server.ServeTLS(l, "", "") }()
		t.Cleanup(func() { server.Close() })
		m.app(addr, l.Addr().String())
		m.say("get:"+name+":443", endpoints("", addr))
	}
	for name, want := range map[string]string{"a.example.com": "a", "b.example.com": "any", "example.org": ""} {
		c := client.client(false)
		c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: name}
		res, err := c.Get("https://10.96.0.1:443/")
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != want {
			t.Errorf("%s leads to %q, want %q", name, body, want)
		}
	}
}

// A ServiceProfile comes before the policy's routes: its routes retry and time
// out, its overrides split, and its name is told to the server's proxy.
func TestServiceProfile(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	m.say("get:web.ns.svc.cluster.local:80", endpoints("", "10.1.0.2:8080"))
	m.say("get:other.ns.svc.cluster.local:80", endpoints("", "10.1.0.3:8080"))
	profile := func(more string) *destination.DestinationProfile {
		return text(t, &destination.DestinationProfile{}, `fully_qualified_name: "web.ns.svc.cluster.local" retry_budget { retry_ratio: 0.2 min_retries_per_second: 10 ttl { seconds: 10 } }
			routes { condition { path { regex: "/retried" } } is_retryable: true metrics_labels { key: "route" value: "retried" } }
			routes { condition { path { regex: "/slow" } } timeout { nanos: 50000000 } } `+more)
	}
	m.say("profile:10.96.0.1:80", profile(""))
	handler, _ := flaky(2)
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Canonical", r.Header.Get("L5d-Dst-Canonical"))
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			return
		}
		handler.ServeHTTP(w, r)
	}))
	m.serve("10.1.0.3:8080", hello("other"))
	client := m.pod("client", "10.1.0.1").client(false)
	if res, body := get(t, client, "http://10.96.0.1:80/retried"); res.StatusCode != 200 || body != " after 3" || res.Header.Get("X-Canonical") != "web.ns.svc.cluster.local:80" {
		t.Errorf("status %d, body %q, header %v", res.StatusCode, body, res.Header)
	}
	if res, _ := get(t, client, "http://10.96.0.1:80/slow"); res.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("slow: %d", res.StatusCode)
	}
	m.say("profile:10.96.0.1:80", profile(`dst_overrides { authority: "other.ns.svc.cluster.local:80" weight: 1 }`))
	eventually.Holds(t, "the override", func() bool {
		_, body := get(t, client, "http://10.96.0.1:80/")
		return body == "other"
	}, nil)
}

// Nothing is taken before there is a certificate; it is renewed in time.
func TestIdentity(t *testing.T) {
	m := newMesh(t)
	m.life = time.Second
	release := make(chan struct{})
	web := m.pod("web", "10.1.0.2", func(c *dataplane.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			<-release
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	admin := "http://" + web.listeners.Admin.Addr().String()
	ask := func(path string) int {
		res, _ := get(t, http.DefaultClient, admin+path)
		return res.StatusCode
	}
	if live, ready := ask("/live"), ask("/ready"); live != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("before: live %d, ready %d", live, ready)
	}
	close(release)
	eventually.Holds(t, "the proxy is ready", func() bool { return ask("/ready") == http.StatusOK }, nil)
	eventually.Holds(t, "three certificates", func() bool { return m.questions("certify:"+identityOf("web")) >= 3 }, nil)
	http.DefaultClient.CloseIdleConnections()
}

// Requests under way end well when the proxy is told to shut down; new ones are
// not taken.
func TestShutdown(t *testing.T) {
	m := newMesh(t)
	m.simple("", "10.1.0.2:8080")
	began, finish := make(chan struct{}), make(chan struct{})
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		fmt.Fprint(w, "done")
	}))
	client := m.pod("client", "10.1.0.1")
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	go func() {
		res, body := get(t, client.client(false), "http://10.96.0.1:80/")
		answers <- answer{res.StatusCode, body}
	}()
	<-began
	res, err := http.Post("http://"+client.listeners.Admin.Addr().String()+"/shutdown", "", nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("shutdown: %v, %v", res, err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	eventually.Holds(t, "nothing is accepted", func() bool {
		conn, err := net.Dial("tcp", client.listeners.Outbound[0].Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, nil)
	close(finish)
	if got := <-answers; got != (answer{200, "done"}) {
		t.Errorf("the request under way got %v", got)
	}
	select {
	case err := <-client.ended:
		client.ended <- err
	case <-time.After(patience):
		t.Error("the proxy does not end")
	}
}

// The metrics have the names and labels of linkerd2-proxy.
func TestMetrics(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	web, client := m.pod("web", "10.1.0.2"), m.pod("client", "10.1.0.1")
	m.serve("10.1.0.2:8080", hello("web"))
	get(t, client.client(false), "http://10.96.0.1:80/")
	for _, test := range []struct {
		pod  *pod
		want []string
	}{
		{client, []string{
			`request_total{direction="outbound",dst_pod="10.1.0.2:8080",dst_service="web",server_id="` + identityOf("web") + `",target_addr="10.1.0.2:8080",target_ip="10.1.0.2",target_port="8080",tls="true"} 1`,
			`classification="success",direction="outbound",dst_pod="10.1.0.2:8080"`,
			`outbound_http_route_backend_requests_total{backend_group="core",backend_kind="Service",backend_name="web:80",backend_namespace="ns",backend_port="80"`,
			`tcp_open_connections{direction="outbound",dst_pod="10.1.0.2:8080",dst_service="web",peer="dst"`,
		}},
		{web, []string{
			`inbound_http_authz_allow_total{authz_group="",authz_kind="default",authz_name="all-unauthenticated",client_id="` + identityOf("client") + `"`,
			`request_total{authz_group="",authz_kind="default",authz_name="all-unauthenticated",client_id="` + identityOf("client") + `",direction="inbound"`,
			`control_response_total{addr="` + m.control + `",classification="success",error="",grpc_status="0",no_tls_reason="loopback"`,
			`response_latency_ms_bucket{`, `control_identity_cert_expiration_timestamp_seconds `,
			`tcp_read_bytes_total{client_id="` + identityOf("client") + `",direction="inbound",peer="src"`,
		}},
	} {
		url := "http://" + test.pod.listeners.Admin.Addr().String() + "/metrics"
		var body string
		eventually.Holds(t, "metrics", func() bool {
			_, body = get(t, http.DefaultClient, url)
			for _, want := range test.want {
				if !strings.Contains(body, want) {
					return false
				}
			}
			return true
		}, func() string { return strings.Join(test.want, "\n") + "\nin\n" + body })
	}
	http.DefaultClient.CloseIdleConnections()
}

// In ingress mode a header says where a request goes, whatever its connection
// was made to.
func TestIngressMode(t *testing.T) {
	m := newMesh(t)
	m.say("policy:web.ns.svc.cluster.local:80", detect(t, "web:80", `routes { metadata { default: "http" } rules { `+first("web:80")+` } }`))
	m.say("get:web:80", endpoints("", "10.1.0.2:8080"))
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, r.Header.Get("L5d-Dst-Override"))
	}))
	m.serve("10.1.0.3:80", hello("the address"))
	client := m.pod("client", "10.1.0.1", func(c *dataplane.Config) { c.IngressMode = true }).client(false)
	if res, body := get(t, client, "http://10.1.0.3:80/", "L5d-Dst-Override", "web.ns.svc.cluster.local", "Host", "shop.example.com"); res.StatusCode != 200 || body != "shop.example.com" {
		t.Errorf("with the header: %d, %q", res.StatusCode, body)
	}
	if res, body := get(t, client, "http://10.1.0.3:80/"); res.StatusCode != 200 || body != "the address" {
		t.Errorf("without: %d, %q", res.StatusCode, body)
	}
}

// What nobody uses is not asked for any more; who comes back asks anew.
func TestIdlePoliciesEnd(t *testing.T) {
	m := newMesh(t)
	m.simple("", "10.1.0.2:8080")
	m.serve("10.1.0.2:8080", hello("web"))
	client := m.pod("client", "10.1.0.1", func(c *dataplane.Config) { c.OutboundIdle = time.Millisecond }).client(false)
	client.Transport.(*http.Transport).DisableKeepAlives = true
	eventually.Holds(t, "the policy is asked for again", func() bool {
		if _, body := get(t, client, "http://10.96.0.1:80/"); body != "web" {
			t.Fatal(body)
		}
		return m.questions("policy:10.96.0.1:80") > 1 && m.questions("get:web:80") > 1
	}, nil)
}

// An address that policy does not know is its profile's endpoint, with that
// one's identity; one that nobody knows is gone to as it is.
func TestAddresses(t *testing.T) {
	m := newMesh(t)
	m.pod("web", "10.1.0.2")
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("L5d-Client-Id")) }))
	m.say("profile:10.1.0.2:8080", &destination.DestinationProfile{Endpoint: endpoint("web", "10.1.0.2:8080")})
	client := m.pod("client", "10.1.0.1").client(false)
	if res, body := get(t, client, "http://10.1.0.2:8080/"); res.StatusCode != 200 || body != identityOf("client") {
		t.Errorf("a pod: %d, the client is %q", res.StatusCode, body)
	}
	m.serve("10.9.0.2:80", hello("outside"))
	if _, body := get(t, client, "http://10.9.0.2:80/"); body != "outside" {
		t.Errorf("outside the mesh: %q", body)
	}
	if res, _ := get(t, client, "http://10.9.0.3:80/"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("where nobody is: %d", res.StatusCode)
	}
}
