package verdict_test

import (
	"net/netip"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

func TestAuthorize(t *testing.T) {
	const (
		network = `networks { net { ip { ipv4: 167772160 } prefix_len: 8 } except { ip { ipv4: 167837952 } prefix_len: 24 } }` // 10/8, not 10.1.1/24
		all     = `networks { net { ip { ipv4: 0 } } } networks { net { ip { ipv6 { } } } }`
	)
	authz := func(networks, authentication string) string {
		return `authorizations { metadata { default: "it" } ` + networks + ` authentication { ` + authentication + ` } }`
	}
	const unauthenticated = `unauthenticated { }`
	identities := authz(all, `meshTLS { identities { identities { name: "a.ns" } identities { name: "spiffe://x.y.z/w" } suffixes { parts: "b" parts: "ns" } } }`)
	anyone := authz(all, `meshTLS { identities { suffixes { } } }`)
	someTLS := authz(all, `meshTLS { unauthenticated { } }`)
	for _, test := range []struct {
		name, authorizations, addr string
		tls                        bool
		identity                   string
		want                       bool
	}{
		{"a network", authz(network, unauthenticated), "10.2.3.4", false, "", true},
		{"a mapped address", authz(network, unauthenticated), "::ffff:10.2.3.4", false, "", true},
		{"an exception", authz(network, unauthenticated), "10.1.1.4", false, "", false},
		{"another network", authz(network, unauthenticated), "192.168.0.1", false, "", false},
		{"IPv6", authz(all, unauthenticated), "fd00::1", false, "", true},
		{"an identity", identities, "10.2.3.4", true, "a.ns", true},
		{"an identity without TLS", identities, "10.2.3.4", false, "a.ns", false},
		{"below a suffix", identities, "10.2.3.4", true, "x.b.ns", true},
		{"the suffix itself", identities, "10.2.3.4", true, "b.ns", false},
		{"a URI", identities, "10.2.3.4", true, "spiffe://x.y.z/w", true},
		{"another identity", identities, "10.2.3.4", true, "c.ns", false},
		{"any identity", anyone, "10.2.3.4", true, "c.ns", true},
		{"no identity", anyone, "10.2.3.4", true, "", false},
		{"a URI is below no suffix", anyone, "10.2.3.4", true, "spiffe://x", false},
		{"TLS without identity", someTLS, "10.2.3.4", true, "", true},
		{"no TLS", someTLS, "10.2.3.4", false, "", false},
		{"none", "", "10.2.3.4", true, "a.ns", false},
		{"this machine", "", "127.0.0.1", false, "", true},
		{"another loopback address", "", "127.0.0.2", false, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := verdict.NewServer(text(t, &inbound.Server{}, test.authorizations+` protocol { detect { timeout { seconds: 10 } } }`))
			if s.Invalid != "" {
				t.Fatal(s.Invalid)
			}
			client := verdict.Client{Addr: netip.MustParseAddr(test.addr), TLS: test.tls, Identity: test.identity}
			if got := s.Authorize(client) != nil; got != test.want {
				t.Errorf("authorized %v, want %v", got, test.want)
			}
			rule, _, ok := s.Routes.Find(request("GET", "h", "/", ""))
			if !ok || (rule.Authorize(client) != nil) != test.want {
				t.Errorf("the default route differs: %v", ok)
			}
		})
	}
}

// A route's authorizations come before the server's, and are added to them.
func TestRouteAuthorizations(t *testing.T) {
	s := verdict.NewServer(text(t, &inbound.Server{}, `
		authorizations { metadata { default: "server" } networks { net { ip { ipv4: 167772160 } prefix_len: 8 } } authentication { unauthenticated { } } }
		protocol { http1 { routes { metadata { default: "probe" } rules { matches { path { exact: "/ready" } } }
			authorizations { metadata { default: "probe" } networks { net { ip { ipv4: 0 } } } authentication { unauthenticated { } } } }
			routes { metadata { default: "default" } rules { matches { path { prefix: "/" } } } } } }`))
	for _, test := range []struct{ path, addr, want string }{
		{"/ready", "192.168.0.1", "probe"}, {"/ready", "10.0.0.1", "probe"}, {"/", "10.0.0.1", "server"}, {"/", "192.168.0.1", ""},
	} {
		rule, _, _ := s.Routes.Find(request("GET", "h", test.path, ""))
		if got := rule.Authorize(verdict.Client{Addr: netip.MustParseAddr(test.addr)}).GetDefault(); got != test.want {
			t.Errorf("%s from %s: by %q, want %q", test.path, test.addr, got, test.want)
		}
	}
}

func TestInvalidServers(t *testing.T) {
	for _, in := range []string{
		``, `protocol { }`, `protocol { http1 { routes { rules { filters { } } } } }`,
		`authorizations { authentication { unauthenticated { } } } protocol { opaque { } }`,
		`authorizations { networks { net { ip { ipv4: 0 } } } } protocol { opaque { } }`,
	} {
		if s := verdict.NewServer(text(t, &inbound.Server{}, in)); s.Invalid == "" {
			t.Errorf("%q is taken", in)
		}
	}
}
