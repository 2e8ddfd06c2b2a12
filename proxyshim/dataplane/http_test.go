package dataplane_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// get is one request and its answer.
func get(t testing.TB, client *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// Requests of both versions go through two proxies by mutual TLS and arrive as
// they were; the application learns who asks, and nothing of proxies.
func TestMeshedHTTP(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			m := newMesh(t)
			m.simple("web", "10.1.0.2:8080")
			web, client := m.pod("web", "10.1.0.2"), m.pod("client", "10.1.0.1")
			m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("Trailer", "Sum")
				w.Header().Set("X-Seen", fmt.Sprint(r.Proto, " ", r.Host, " ", r.RequestURI, " ", r.Header, " ", r.Trailer))
				fmt.Fprintf(w, "%s", body)
				w.Header().Set("Sum", "9")
			}))
			_ = web
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://10.96.0.1:80/a%2Fb?q=1;x", io.NopCloser(strings.NewReader("the body")))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "web.ns"
			req.Header = http.Header{"User-Agent": {"test"}, "L5d-Client-Id": {"somebody"}, "X-Forwarded-For": {"1.2.3.4"}}
			req.Trailer = http.Header{"Checked": {"yes"}}
			res, err := client.client(h2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK || string(body) != "the body" {
				t.Fatalf("status %d, body %q, error %v, header %v", res.StatusCode, body, err, res.Header)
			}
			proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]
			headers := "map[L5d-Client-Id:[" + identityOf("client") + "] User-Agent:[test] X-Forwarded-For:[1.2.3.4]]"
			want := proto + " web.ns /a%2Fb?q=1;x " + headers + " map[Checked:[yes]]"
			if got := res.Header.Get("X-Seen"); got != want {
				t.Errorf("the application has seen\n%s, want\n%s", got, want)
			}
			if res.Trailer.Get("Sum") != "9" || res.Proto != proto {
				t.Errorf("the answer has trailer %v, protocol %s", res.Trailer, res.Proto)
			}
			for name := range res.Header {
				if strings.HasPrefix(name, "L5d-") || name == "Content-Type" && h2 {
					t.Logf("the answer has header %s: %s", name, res.Header[name])
				}
			}
		})
	}
}

// What a server sends arrives before the next is sent.
func TestStreamedBody(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	m.pod("web", "10.1.0.2")
	client := m.pod("client", "10.1.0.1")
	next := make(chan struct{})
	m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintln(w, i)
			w.(http.Flusher).Flush()
			<-next
		}
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://10.96.0.1:80/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.client(false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintln(i) {
			t.Fatalf("line %q, error %v", line, err)
		}
		next <- struct{}{}
	}
}

// Peers without a direct path are reached at the application's port, by TLS for
// their identity, where HTTP is detected behind it; and a peer that proves
// another identity is not reached.
func TestTLSAtTheApplicationsPort(t *testing.T) {
	for name, hint := range map[string]*destination.ProtocolHint{
		"no hint": nil, "HTTP/2": {Protocol: &destination.ProtocolHint_H2_{H2: &destination.ProtocolHint_H2{}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMesh(t)
			m.simple("web")
			at := func(account string) {
				e := endpoint(account, "10.1.0.2:8080")
				e.ProtocolHint = hint
				m.say("get:web:80", &destination.Update{Update: &destination.Update_Add{Add: &destination.WeightedAddrSet{Addrs: []*destination.WeightedAddr{e}}}})
			}
			at("web")
			m.pod("web", "10.1.0.2")
			m.serve("10.1.0.2:8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Proto, r.Header.Get("L5d-Client-Id"), r.Header.Get("L5d-Orig-Proto"))
			}))
			client := m.pod("client", "10.1.0.1")
			for h2, proto := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
				if res, body := get(t, client.client(h2), "http://10.96.0.1:80/"); body != proto+identityOf("client") || res.Proto != proto {
					t.Errorf("status %d, body %q, want %s", res.StatusCode, body, proto)
				}
			}
			at("other")
			eventually.Holds(t, "the identity is wrong", func() bool {
				res, _ := get(t, client.client(false), "http://10.96.0.1:80/")
				return res.StatusCode >= 500
			}, nil)
		})
	}
}
