package verdict_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// text reads a message from its text form.
func text[M proto.Message](t testing.TB, m M, in string) M {
	t.Helper()
	if err := prototext.Unmarshal([]byte(in), m); err != nil {
		t.Fatalf("%v in:\n%s", err, in)
	}
	return m
}

const (
	backend = `backend { metadata { default: "b" } queue { capacity: 100 failfast_timeout { seconds: 3 } } balancer { discovery { dst { path: "web:80" } } peak_ewma { default_rtt { nanos: 30000000 } decay { seconds: 10 } } } }`
	first   = ` backends { first_available { backends { ` + backend + ` } } }`
)

// named is a route of one rule whose name says which it is.
func named(name, rule string) string {
	return `routes { metadata { default: "` + name + `" } ` + rule + ` }`
}

// plan is that of a policy with this protocol.
func plan(t testing.TB, protocol string) *verdict.Plan {
	p := text(t, &outbound.OutboundPolicy{}, `metadata { default: "test" } protocol { `+protocol+` }`)
	return verdict.NewPlan(verdict.Sources{Policy: p, Original: netip.MustParseAddrPort("10.96.0.1:80")})
}

func request(method, authority, path, query string, header ...string) *verdict.Request {
	r := &verdict.Request{Method: method, Authority: authority, Path: path, RawQuery: query, Header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestHTTPMatch(t *testing.T) {
	for _, test := range []struct {
		name, routes string
		request      *verdict.Request
		want         string
	}{
		{"the longer path wins, whatever its kind", named("exact", `rules { matches { path { exact: "/a/b" } } `+first+` }`) + named("prefix", `rules { matches { path { prefix: "/a" } } `+first+` }`), request("GET", "h", "/a/b", ""), "exact"},
		{"of equals the first", named("one", `rules { matches { path { prefix: "/a" } } `+first+` }`) + named("two", `rules { matches { path { exact: "/a" } } `+first+` }`), request("GET", "h", "/a", ""), "one"},
		{"then the method, before headers", named("headers", `rules { matches { headers { name: "x" exact: "1" } headers { name: "y" exact: "2" } } `+first+` }`) + named("method", `rules { matches { method { registered: GET } } `+first+` }`), request("GET", "h", "/", "", "X", "1", "Y", "2"), "method"},
		{"then headers, before the query", named("query", `rules { matches { query_params { name: "q" exact: "1" } } `+first+` }`) + named("headers", `rules { matches { headers { name: "x" regex: "[0-9]+" } } `+first+` }`), request("GET", "h", "/", "q=1", "X", "12"), "headers"},
		{"a prefix ends with its segment", named("prefix", `rules { matches { path { prefix: "/foo/" } } `+first+` }`), request("GET", "h", "/foobar", ""), ""},
		{"a prefix with a slash takes the path without", named("prefix", `rules { matches { path { prefix: "/foo/" } } `+first+` }`), request("GET", "h", "/foo", ""), "prefix"},
		{"an expression is for the whole path", named("regex", `rules { matches { path { regex: "/a+" } } `+first+` }`), request("GET", "h", "/aab", ""), ""},
		{"the first alternative that fits decides", named("regex", `rules { matches { path { regex: "/a|/ab" } } `+first+` }`), request("GET", "h", "/ab", ""), ""},
		{"an expression that does not compile", named("regex", `rules { matches { path { regex: "(" } } `+first+` }`), request("GET", "h", "/(", ""), ""},
		{"any value of a header", named("header", `rules { matches { headers { name: "x" exact: "2" } } `+first+` }`), request("GET", "h", "/", "", "X", "1", "X", "2"), "header"},
		{"a rule without matches takes all", named("all", `rules { `+first+` }`), request("PUT", "h", "/x", ""), "all"},
		{"an unregistered method", named("method", `rules { matches { method { unregistered: "BREW" } } `+first+` }`), request("BREW", "h", "/", ""), "method"},
		{"the exact host before a suffix, and before paths", named("path", `hosts { suffix { reverse_labels: "com" reverse_labels: "a" } } rules { matches { path { exact: "/long" } } `+first+` }`) + named("host", `hosts { exact: "B.a.com" } rules { `+first+` }`), request("GET", "b.a.com.:80", "/long", ""), "host"},
		{"the longer suffix", named("short", `hosts { suffix { reverse_labels: "com" } } rules { `+first+` }`) + named("long", `hosts { suffix { reverse_labels: "com" reverse_labels: "a" } } rules { `+first+` }`), request("GET", "b.a.com", "/", ""), "long"},
		{"a suffix needs a label before it", named("suffix", `hosts { suffix { reverse_labels: "com" reverse_labels: "a" } } rules { `+first+` }`), request("GET", "a.com", "/", ""), ""},
		{"no route", "", request("GET", "h", "/", ""), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := plan(t, `http1 { `+test.routes+` }`)
			if p.Invalid != "" {
				t.Fatal(p.Invalid)
			}
			rule, _, ok := p.HTTP1.Routes.Find(test.request)
			if got := name(rule); got != test.want || ok != (test.want != "") {
				t.Errorf("route %q, want %q", got, test.want)
			}
		})
	}
}

func name(r *verdict.Rule) string {
	if r == nil {
		return ""
	}
	return r.Route.GetDefault()
}

func TestGRPCMatch(t *testing.T) {
	routes := named("service", `rules { matches { rpc { service: "s" } } `+first+` }`) + named("method", `rules { matches { rpc { service: "s" method: "m" } } `+first+` }`) +
		named("header", `rules { matches { rpc { } headers { name: "x" exact: "1" } } `+first+` }`)
	p := plan(t, `grpc { `+routes+` }`)
	for _, test := range []struct {
		request *verdict.Request
		want    string
	}{
		{request("POST", "h", "/s/m", ""), "method"},
		{request("POST", "h", "/s/n", "", "X", "1"), "service"},
		{request("POST", "h", "/t/m", "", "X", "1"), "header"},
		{request("POST", "h", "/t/m", ""), ""},
		{request("GET", "h", "/s/m", ""), ""},
		{request("POST", "h", "/s", ""), ""},
	} {
		rule, _, _ := p.HTTP2.Routes.Find(test.request)
		if got := name(rule); got != test.want {
			t.Errorf("%s %s: route %q, want %q", test.request.Method, test.request.Path, got, test.want)
		}
	}
}

// What a policy and a profile say together.
func TestPlan(t *testing.T) {
	detect := `detect { timeout { seconds: 10 } opaque { ` + named("opaq", "rules { "+first+" }") + ` } http1 { ` + named("http", "rules { "+first+" }") + ` } http2 { ` + named("http", "rules { "+first+" }") + ` } }`
	const routes = `routes { condition { path { regex: "/x" } } }`
	for _, test := range []struct {
		name, policy, profile string
		protocol              verdict.Protocol
		http, opaque          string // the paths or addresses of backends
		invalid               string
	}{
		{"a policy", detect, "", verdict.Detect, "web:80", "web:80", ""},
		{"a profile makes it opaque", detect, "opaque_protocol: true", verdict.Opaque, "web:80", "web:80", ""},
		{"opaque where policy knows HTTP only", "http1 { " + named("http", "rules { "+first+" }") + " }", `opaque_protocol: true fully_qualified_name: "p"`, verdict.Opaque, "web:80", "p:80", ""},
		{"a profile without a name is not used", detect, routes, verdict.Detect, "web:80", "web:80", ""},
		{"a profile with routes", detect, routes + `fully_qualified_name: "p."`, verdict.Detect, "p:80", "web:80", ""},
		{"a profile with overrides", detect, `fully_qualified_name: "p" dst_overrides { authority: "o:81" weight: 1 } dst_overrides { authority: "no port" weight: 1 } dst_overrides { authority: "z:1" }`, verdict.Detect, "o:81", "o:81", ""},
		{"no policy", "", "", verdict.Detect, "10.96.0.1:80", "10.96.0.1:80", ""},
		{"no policy, an endpoint", "", "endpoint { addr { ip { ipv4: 167837953 } port: 8080 } }", verdict.Detect, "10.1.1.1:8080", "10.1.1.1:8080", ""},
		{"no kind", " ", "", verdict.Opaque, "", "", "policy without a protocol"},
		{"no backends", "http1 { " + named("http", "rules { backends { first_available { } } }") + " }", "", verdict.Opaque, "", "", "a rule without backends"},
		{"two opaque routes", "opaque { " + named("a", "rules { "+first+" }") + named("b", "rules { "+first+" }") + " }", "", verdict.Opaque, "", "", "2 opaque routes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := verdict.Sources{Original: netip.MustParseAddrPort("10.96.0.1:80")}
			if test.policy != "" {
				s.Policy = text(t, &outbound.OutboundPolicy{}, `metadata { default: "test" } protocol { `+test.policy+` }`)
			}
			if test.profile != "" {
				s.Profile = text(t, &destination.DestinationProfile{}, test.profile)
			}
			p := verdict.NewPlan(s)
			if p.Protocol != test.protocol || (test.invalid == "") != (p.Invalid == "") {
				t.Fatalf("protocol %v, invalid %q", p.Protocol, p.Invalid)
			}
			http := ""
			if p.HTTP1 != nil {
				rule, _, _ := p.HTTP1.Routes.Find(request("GET", "h", "/x", ""))
				http = where(rule)
			}
			if http != test.http || where(p.Opaque) != test.opaque {
				t.Errorf("HTTP goes to %q, bytes to %q; want %q, %q", http, where(p.Opaque), test.http, test.opaque)
			}
		})
	}
}

// where is where the first backend of a rule is.
func where(r *verdict.Rule) string {
	if r == nil {
		return ""
	}
	b := r.Backends.Choose(func(*verdict.Backend) bool { return true }, func(uint64) uint64 { return 0 })
	if b.Forward != nil {
		return b.Forward.GetAddr().AddrPort().String()
	}
	return b.Path
}

func TestChoose(t *testing.T) {
	a, b, none := &verdict.Backend{Path: "a", Weight: 1}, &verdict.Backend{Path: "b", Weight: 3}, &verdict.Backend{Path: "none"}
	for _, test := range []struct {
		name      string
		d         verdict.Distribution
		available string
		draw      uint64
		want      *verdict.Backend
	}{
		{"by weight", verdict.Distribution{Random: true, Backends: []*verdict.Backend{none, a, b}}, "abnone", 0, a},
		{"by weight, later", verdict.Distribution{Random: true, Backends: []*verdict.Backend{none, a, b}}, "abnone", 1, b},
		{"only one is available", verdict.Distribution{Random: true, Backends: []*verdict.Backend{a, b}}, "a", 0, a},
		{"none is available", verdict.Distribution{Random: true, Backends: []*verdict.Backend{a, b}}, "", 3, b},
		{"no weights", verdict.Distribution{Random: true, Backends: []*verdict.Backend{none}}, "none", 0, nil},
		{"the first available", verdict.Distribution{Backends: []*verdict.Backend{a, b}}, "b", 0, b},
		{"nothing", verdict.Distribution{}, "", 0, nil},
	} {
		got := test.d.Choose(func(b *verdict.Backend) bool { return strings.Contains(test.available, b.Path) }, func(uint64) uint64 { return test.draw })
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
