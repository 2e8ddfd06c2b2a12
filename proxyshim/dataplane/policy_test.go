package dataplane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	inboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// hello is an application that answers everybody.
func hello(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
}

const onlyOther = `authorizations { metadata { resource { group: "policy.linkerd.io" kind: "authorizationpolicy" name: "other" } }
	networks { net { ip { ipv4: 0 } } } authentication { meshTLS { identities { identities { name: "other.ns.serviceaccount.identity.linkerd.cluster.local" } } } } }`

// Who is not authorized gets 403, who asks for no route 404, who asks too often
// 429, and the policy is followed while connections are open.
func TestInboundHTTPPolicy(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	m.pod("web", "10.1.0.2")
	client, other := m.pod("client", "10.1.0.1").client(false), m.pod("other", "10.1.0.3").client(true)
	m.serve("10.1.0.2:8080", hello("web"))
	m.say("port:web:8080", server(t, onlyOther, ""))
	res, _ := get(t, client, "http://10.96.0.1:80/")
	if res.StatusCode != http.StatusForbidden || res.Header.Get("L5d-Proxy-Error") != "" {
		t.Errorf("the client gets %d, %v", res.StatusCode, res.Header)
	}
	if res, body := get(t, other, "http://10.96.0.1:80/"); res.StatusCode != http.StatusOK || body != "web" {
		t.Errorf("the other gets %d, %q", res.StatusCode, body)
	}
	// gRPC is told by its own status.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://10.96.0.1:80/s/m", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	unmeshed := m.pod("third", "10.1.0.4").client(true)
	if res, err = unmeshed.Do(req); err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Grpc-Status") != "7" {
		t.Errorf("gRPC gets %v, %v", res, err)
	}
	res.Body.Close()

	m.say("port:web:8080", server(t, onlyOther, `http_routes { metadata { default: "probe" } rules { matches { path { exact: "/ready" } } } `+
		strings.Replace(everybody, "all-unauthenticated", "probe", 1)+` }`))
	status := func(c *http.Client, path string) int {
		res, _ := get(t, c, "http://10.96.0.1:80"+path)
		return res.StatusCode
	}
	eventually.Holds(t, "no route for the other", func() bool { return status(other, "/") == http.StatusNotFound }, nil)
	if got := status(client, "/ready"); got != http.StatusOK {
		t.Errorf("a route of its own authorization gives %d", got)
	}

	m.say("port:web:8080", server(t, everybody, `http_local_rate_limit { metadata { resource { group: "policy.linkerd.io" kind: "HTTPLocalRateLimitPolicy" name: "slow" } }
		identity { requestsPerSecond: 1 } overrides { limit { requestsPerSecond: 100000 } clients { identities { name: "`+identityOf("other")+`" } } } }`))
	eventually.Holds(t, "too many requests", func() bool { return status(client, "/") == http.StatusTooManyRequests }, nil)
	for range 5 {
		if got := status(other, "/"); got != http.StatusOK {
			t.Fatalf("the overridden client gets %d", got)
		}
	}
	m.say("port:web:8080", server(t, "authorizations { }", ""))
	eventually.Holds(t, "invalid policy", func() bool { return status(client, "/") == http.StatusInternalServerError }, nil)
}

// speaker is a server that speaks first, then says back what it hears.
func speaker(t *testing.T, m *mesh, addr string) {
	l := m.listen()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, "welcome\n")
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	m.app(addr, l.Addr().String())
}

// opaque is the endpoint hint of a port that is not to be detected.
const opaquePort = `labels { key: "name" value: "opaque" } protocol { opaque { } }`

// A server speaks first on an opaque port, both ends are half closed in turn,
// and a connection ends when its client loses its authorization.
func TestOpaque(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:3306")
	policy := detect(t, "web:80", "")
	m.say("policy:10.96.0.1:80", policyOf(t, `opaque { routes { metadata { default: "opaq" } rules { `+first("web:80")+` } } }`))
	_ = policy
	m.pod("web", "10.1.0.2")
	client := m.pod("client", "10.1.0.1")
	speaker(t, m, "10.1.0.2:3306")
	m.say("port:web:3306", text(t, &inboundpb.Server{}, everybody+opaquePort))
	dial := func() net.Conn {
		conn, err := client.connect(t.Context(), "10.96.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		return conn
	}
	conn := dial()
	if _, err := io.WriteString(conn, "said"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "welcome\nsaid" {
		t.Errorf("heard %q, error %v", got, err)
	}
	conn.Close()

	open := dial()
	defer open.Close()
	if _, err := io.ReadFull(open, make([]byte, len("welcome\n"))); err != nil {
		t.Fatal(err)
	}
	m.say("port:web:3306", text(t, &inboundpb.Server{}, onlyOther+opaquePort))
	if n, err := open.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after the authorization was lost", n)
	}
	refused := dial()
	defer refused.Close()
	if got, err := io.ReadAll(refused); len(got) > 0 {
		t.Errorf("without authorization: %q, %v", got, err)
	}
}

// flaky fails the first requests of each path, and counts them.
func flaky(failures int) (http.Handler, *atomic.Int64) {
	var seen atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if seen.Add(1) <= int64(failures) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%s after %d", body, seen.Load())
	}), &seen
}

// Retries hide failures, with the body of the request sent anew, as often as
// the policy says.
func TestRetries(t *testing.T) {
	for name, test := range map[string]struct {
		failures, status, seen int
		body                   string
	}{
		"hidden":    {2, 200, 3, "body"},
		"too many":  {5, 500, 3, "body"},
		"too large": {2, 500, 1, strings.Repeat("x", 100)},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMesh(t)
			m.simple("web", "10.1.0.2:8080")
			m.say("policy:10.96.0.1:80", detect(t, "web:80", httpRoute(`matches { path { prefix: "/" } } `+first("web:80")+`
				retry { max_retries: 2 max_request_bytes: 50 conditions { status_ranges { start: 500 end: 599 } } backoff { min_backoff { nanos: 1000000 } max_backoff { nanos: 2000000 } } }`)))
			m.pod("web", "10.1.0.2")
			client := m.pod("client", "10.1.0.1").client(false)
			handler, seen := flaky(test.failures)
			m.serve("10.1.0.2:8080", handler)
			res, err := client.Post("http://10.96.0.1:80/", "text/plain", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != test.status || int(seen.Load()) != test.seen {
				t.Errorf("status %d after %d requests, error %v", res.StatusCode, seen.Load(), err)
			}
			if want := fmt.Sprintf("body after %d", test.seen); test.status == 200 && string(body) != want {
				t.Errorf("body %q, want %q", body, want)
			}
		})
	}
}

// Requests that take too long get 504, and say why; each try may have a limit
// of its own.
func TestTimeouts(t *testing.T) {
	for name, timeouts := range map[string]string{
		"request":  `timeouts { request { nanos: 50000000 } }`,
		"response": `timeouts { response { nanos: 50000000 } }`,
		"idle":     `timeouts { idle { nanos: 50000000 } }`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMesh(t)
			m.simple("web", "10.1.0.2:8080")
			m.say("policy:10.96.0.1:80", detect(t, "web:80", httpRoute(`matches { path { prefix: "/" } } `+first("web:80")+timeouts)))
			m.pod("web", "10.1.0.2")
			client := m.pod("client", "10.1.0.1").client(false)
			m.serve("10.1.0.2:8080", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			res, _ := get(t, client, "http://10.96.0.1:80/")
			if res.StatusCode != http.StatusGatewayTimeout || res.Header.Get("L5d-Proxy-Error") == "" {
				t.Errorf("status %d, header %v", res.StatusCode, res.Header)
			}
		})
	}
}

// Weights split requests; one of weight 0 gets none.
func TestSplit(t *testing.T) {
	m := newMesh(t)
	weighted := func(path string, weight int) string {
		return fmt.Sprintf("backends { backend { %s } weight: %d }", balance(path), weight)
	}
	m.say("policy:10.96.0.1:80", detect(t, "web:80", httpRoute(`matches { path { prefix: "/" } } backends { random_available { `+weighted("a:80", 1)+weighted("b:80", 3)+weighted("c:80", 0)+` } }`)))
	for i, name := range []string{"a", "b", "c"} {
		ip := fmt.Sprintf("10.1.0.%d", 10+i)
		m.say("get:"+name+":80", endpoints(name, ip+":8080"))
		m.pod(name, ip)
		m.serve(ip+":8080", hello(name))
	}
	client := m.pod("client", "10.1.0.1").client(true)
	const n = 400
	count := map[string]int{}
	for range n {
		res, body := get(t, client, "http://10.96.0.1:80/")
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %v", res.StatusCode, res.Header)
		}
		count[body]++
	}
	if count["a"] < n/8 || count["a"] > n*3/8 || count["c"] > 0 {
		t.Errorf("of %d requests: %v", n, count)
	}
}

// Without endpoints a request waits for one, and those after it do not.
func TestFailFast(t *testing.T) {
	m := newMesh(t)
	m.say("policy:10.96.0.1:80", detect(t, "web:80", strings.ReplaceAll(httpRoute(first("web:80")), "failfast_timeout { seconds: 3 }", "failfast_timeout { nanos: 50000000 }")))
	client := m.pod("client", "10.1.0.1").client(false)
	for _, want := range []int{http.StatusGatewayTimeout, http.StatusServiceUnavailable} {
		if res, _ := get(t, client, "http://10.96.0.1:80/"); res.StatusCode != want {
			t.Errorf("status %d, want %d", res.StatusCode, want)
		}
	}
	m.say("get:web:80", endpoints("", "10.1.0.2:8080"))
	m.serve("10.1.0.2:8080", hello("web"))
	eventually.Holds(t, "the endpoint is used", func() bool {
		res, _ := get(t, client, "http://10.96.0.1:80/")
		return res.StatusCode == http.StatusOK
	}, nil)
}

// An endpoint that cannot be reached is passed over.
func TestUnreachableEndpoint(t *testing.T) {
	m := newMesh(t)
	m.simple("", "10.1.0.2:8080", "10.1.0.3:8080", "10.1.0.4:8080")
	m.serve("10.1.0.4:8080", hello("third"))
	client := m.pod("client", "10.1.0.1").client(false)
	for range 20 {
		if res, body := get(t, client, "http://10.96.0.1:80/"); body != "third" {
			t.Fatalf("status %d, body %q", res.StatusCode, body)
		}
	}
}

// After failures in a row an endpoint is left alone.
func TestCircuitBreaking(t *testing.T) {
	m := newMesh(t)
	m.simple("", "10.1.0.2:8080", "10.1.0.3:8080")
	m.say("policy:10.96.0.1:80", detect(t, "web:80", httpRoute(first("web:80"))+`failure_accrual { consecutive_failures { max_failures: 3
		backoff { min_backoff { seconds: 3600 } max_backoff { seconds: 7200 } } } }`))
	handler, seen := flaky(1 << 30)
	m.serve("10.1.0.2:8080", handler)
	m.serve("10.1.0.3:8080", hello("good"))
	client := m.pod("client", "10.1.0.1").client(false)
	eventually.Holds(t, "the breaker shuts", func() bool {
		get(t, client, "http://10.96.0.1:80/")
		return seen.Load() >= 3
	}, nil)
	for range 50 {
		get(t, client, "http://10.96.0.1:80/")
	}
	if n := seen.Load(); n != 3 {
		t.Errorf("the failing endpoint has got %d requests, want 3", n)
	}
}

// A redirect, an injected failure, header filters, and a request that no route
// is for.
func TestFilters(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	m.say("policy:10.96.0.1:80", detect(t, "web:80", httpRoute(
		`matches { path { prefix: "/old" } } filters { redirect { path { prefix: "/new" } status: 302 } } `+first("web:80"),
		`matches { path { exact: "/fail" } } filters { failure_injector { status: 418 message: "a teapot" } } `+first("web:80"),
		`matches { path { exact: "/ok" } } filters { request_header_modifier { set { headers { name: "x-set" value: "1" } } remove: "x-gone" } }
			filters { response_header_modifier { add { headers { name: "x-added" value: "2" } } } } `+first("web:80"))))
	m.pod("web", "10.1.0.2")
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Set"), r.Header.Get("X-Gone"))
	}))
	client := m.pod("client", "10.1.0.1").client(false)
	if res, _ := get(t, client, "http://10.96.0.1:80/old/x?q=1", "Host", "web.ns"); res.StatusCode != 302 || res.Header.Get("Location") != "http://web.ns/new/x?q=1" {
		t.Errorf("redirect: %d, %v", res.StatusCode, res.Header)
	}
	if res, _ := get(t, client, "http://10.96.0.1:80/fail"); res.StatusCode != 418 || res.Header.Get("L5d-Proxy-Error") != "a teapot" {
		t.Errorf("failure: %d, %v", res.StatusCode, res.Header)
	}
	if res, body := get(t, client, "http://10.96.0.1:80/ok", "X-Gone", "x"); body != "1" || res.Header.Get("X-Added") != "2" {
		t.Errorf("headers: %q, %v", body, res.Header)
	}
	if res, _ := get(t, client, "http://10.96.0.1:80/none"); res.StatusCode != http.StatusNotFound {
		t.Errorf("no route: %d", res.StatusCode)
	}
}

// Bytes to where policy forbids them are refused, and so is what was sent to the
// proxy itself.
func TestRefused(t *testing.T) {
	m := newMesh(t)
	client := m.pod("client", "10.1.0.1")
	m.say("policy:10.96.0.9:5432", policyOf(t, `opaque { routes { metadata { default: "tcp-egress-deny" } rules { filters { forbidden { } } `+first("x:1")+` } } }`))
	for _, to := range []string{"10.96.0.9:5432", client.listeners.Outbound[0].Addr().String()} {
		conn, err := client.connect(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %d bytes, error %v", to, n, err)
		}
		conn.Close()
	}
}
