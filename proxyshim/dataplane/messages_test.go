package dataplane_test

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	inboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// text reads a message from its text form.
func text[M proto.Message](t testing.TB, m M, in string) M {
	t.Helper()
	if err := prototext.Unmarshal([]byte(in), m); err != nil {
		t.Fatalf("%v in:\n%s", err, in)
	}
	return m
}

// balance is the text of a backend that balances over a path.
func balance(path string) string {
	return `backend { metadata { resource { group: "core" kind: "Service" namespace: "ns" name: "` + path + `" port: 80 } }
		queue { capacity: 100 failfast_timeout { seconds: 3 } }
		balancer { discovery { dst { path: "` + path + `" } } peak_ewma { default_rtt { nanos: 30000000 } decay { seconds: 10 } } } }`
}

// first is the text of a distribution to one path.
func first(path string) string {
	return `backends { first_available { backends { ` + balance(path) + ` } } }`
}

// httpRoute is the text of a route with rules.
func httpRoute(rules ...string) string {
	out := `routes { metadata { resource { group: "gateway.networking.k8s.io" kind: "HTTPRoute" namespace: "ns" name: "route" } }`
	for _, r := range rules {
		out += " rules { " + r + " }"
	}
	return out + " }"
}

// detect is a policy of a Service with HTTP routes; bytes go to path.
func detect(t testing.TB, path, routes string) *outboundpb.OutboundPolicy {
	return text(t, &outboundpb.OutboundPolicy{}, `
		metadata { resource { group: "core" kind: "Service" namespace: "ns" name: "web" port: 80 } }
		protocol { detect {
			timeout { seconds: 10 }
			opaque { routes { metadata { default: "opaq" } rules { `+first(path)+` } } }
			http1 { `+routes+` }
			http2 { `+routes+` }
		} }`)
}

// endpoints is a message with meshed endpoints of one service account.
func endpoints(account string, addrs ...string) *destination.Update {
	set := &destination.WeightedAddrSet{MetricLabels: map[string]string{"service": "web"}}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, endpoint(account, a))
	}
	return &destination.Update{Update: &destination.Update_Add{Add: set}}
}

func endpoint(account, addr string) *destination.WeightedAddr {
	w := &destination.WeightedAddr{Addr: netpb.NewTcpAddress(netip.MustParseAddrPort(addr)), Weight: 10_000, MetricLabels: map[string]string{"pod": addr}}
	if account == "" {
		return w
	}
	id := &destination.TlsIdentity_DnsLikeIdentity{Name: identityOf(account)}
	w.TlsIdentity = &destination.TlsIdentity{Strategy: &destination.TlsIdentity_DnsLikeIdentity_{DnsLikeIdentity: id}, ServerName: id}
	w.ProtocolHint = &destination.ProtocolHint{
		Protocol: &destination.ProtocolHint_H2_{H2: &destination.ProtocolHint_H2{}}, OpaqueTransport: &destination.ProtocolHint_OpaqueTransport{InboundPort: 4143},
	}
	return w
}

// server is a port's policy for HTTP.
func server(t testing.TB, authorizations, routes string) *inboundpb.Server {
	return text(t, &inboundpb.Server{}, `
		labels { key: "group" value: "policy.linkerd.io" } labels { key: "kind" value: "server" } labels { key: "name" value: "web" }
		`+authorizations+`
		protocol { detect { timeout { seconds: 10 } `+routes+` } }`)
}

const everybody = `authorizations { metadata { default: "all-unauthenticated" } networks { net { ip { ipv4: 0 } } } authentication { unauthenticated {} } }`

// simple makes a Service 10.96.0.1:80 with the endpoints that are given.
func (m *mesh) simple(account string, addrs ...string) {
	m.say("policy:10.96.0.1:80", detect(m.t, "web:80", `routes { metadata { default: "http" } rules { matches { path { prefix: "/" } } `+first("web:80")+` } }`))
	m.say("get:web:80", endpoints(account, addrs...))
}

// policyOf is a policy of this protocol.
func policyOf(t testing.TB, protocol string) *outboundpb.OutboundPolicy {
	return text(t, &outboundpb.OutboundPolicy{}, `metadata { default: "test" } protocol { `+protocol+` }`)
}

// removed is a message that takes endpoints away.
func removed(addrs ...string) *destination.Update {
	set := &destination.AddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, netpb.NewTcpAddress(netip.MustParseAddrPort(a)))
	}
	return &destination.Update{Update: &destination.Update_Remove{Remove: set}}
}
