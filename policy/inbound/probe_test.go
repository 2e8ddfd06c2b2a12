package inbound

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Paths of probes are compared with what stands on the wire, so they are
// what Go's HTTP client, which a kubelet is, sends for them.
func TestProbePathIsWhatAKubeletRequests(t *testing.T) {
	rulebook.Covers(t, "G1")
	var requested string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requested, _, _ = strings.Cut(r.RequestURI, "?")
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"": "/", "/": "/", "/a?b=c": "/a", "healthz": "/healthz", "http://h/p": "/p", "//x": "/", "///x": "///x", "/a|b": "/a%7Cb", "/{x}": "/%7Bx%7D",
		"/*": "/*", "/*.a": "/*.a", "*": "/*", "/a b": "/a%20b", "/ü": "/%C3%BC", "/a%7Cb": "/a%7Cb", "/a%2fb": "/a%2fb", "/[x]": "/[x]", "/%zz": "/%25zz",
		"?q": "/", "#f": "/", "/a#b": "/a", "/'!$&()+,;=:@": "/'!$&()+,;=:@", "/\"<>^`\\": "/%22%3C%3E%5E%60%5C", "a:b": "",
	} {
		got, err := probePath(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q gives %q, %v, want %q", text, got, err, want)
		}
		// As a kubelet does it: its own host in what the path is parsed to, or the path as it is.
		target, err := url.Parse(text)
		if err != nil {
			target = &url.URL{Path: text}
		}
		target.Scheme, target.Host = "http", net.JoinHostPort(host, port)
		requested = ""
		if response, err := http.Get(target.String()); err == nil {
			response.Body.Close()
		}
		if requested != want {
			t.Errorf("%q is requested as %q, want %q", text, requested, want)
		}
	}
}
