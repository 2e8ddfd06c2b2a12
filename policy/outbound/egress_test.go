package outbound

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

func born(doc, created string) string {
	return strings.Replace(doc, "annotations: {}", "creationTimestamp: '"+created+"'", 1)
}

// EgressNetworks for 192.168.0.4 from namespace ns, with cluster networks that
// do not contain it.
func TestEgressNetworkOf(t *testing.T) {
	config := defaultConfig()
	config.ClusterNetworks = linkerd.MustParseNetworks("10.0.0.0/8")
	const global, old, young = "linkerd-egress", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	one := func(namespace, name, created, networks string) string {
		return born(egressOf(namespace, name, "Allow", networks), created)
	}
	for _, row := range []struct {
		name     string
		networks []string
		want     string
		ip       string
	}{
		{"P152 the smaller network", []string{one(global, "net-1", old, "[{cidr: 192.168.0.1/16}]"), one(global, "net-2", old, "[{cidr: 192.168.0.1/24}]")}, "linkerd-egress/net-2", ""},
		{"P153 the client's namespace", []string{one("ns", "net-1", old, "[{cidr: 192.168.0.1/16}]"), one(global, "net-2", old, "[{cidr: 192.168.0.1/24}]")}, "ns/net-1", ""},
		{"P154 an unrelated namespace", []string{one("other", "net-1", old, "[{cidr: 192.168.0.1/16}]")}, "", ""},
		{"P155 the older", []string{one(global, "net-1", young, "[{cidr: 192.168.0.1/16}]"), one(global, "net-2", old, "[{cidr: 192.168.0.1/16}]")}, "linkerd-egress/net-2", ""},
		{"P156 the first by name", []string{one(global, "b", old, "[{cidr: 192.168.0.1/16}]"), one(global, "a", old, "[{cidr: 192.168.0.1/16}]")}, "linkerd-egress/a", ""},
		{"P157 excepted", []string{one(global, "b", old, "[{cidr: 192.168.0.0/16, except: [192.168.0.4]}]"), one(global, "d", old, "[{cidr: 192.168.0.0/16}]")}, "linkerd-egress/d", ""},
		{"P158 the client's namespace has none that matches", []string{one("ns", "a", old, "[{cidr: 1.0.0.0/8}]"), one(global, "b", old, "[{cidr: 192.168.0.0/16}]")}, "", ""},
		{"the smallest network of each", []string{one("ns", "a", old, "[{cidr: 0.0.0.0/0}, {cidr: 192.168.0.4/32}]"), one("ns", "b", old, "[{cidr: 192.168.0.4/31}]")}, "ns/a", ""},
		{"the smallest network of each comes first", []string{one("ns", "a", old, "[{cidr: 192.168.0.4/32}, {cidr: 0.0.0.0/0}]"), one("ns", "b", old, "[{cidr: 192.168.0.4/31}]")}, "ns/a", ""},
		{"sizes are at least zero", []string{one("ns", "a", old, "[{cidr: 192.168.0.0/24, except: [172.0.0.0/8]}]"), one("ns", "b", young, "[{cidr: 192.168.0.0/24, except: [172.0.0.0/7]}]")}, "ns/a", ""},
		{"excepts make a network smaller", []string{one("ns", "a", old, "[{cidr: 192.168.0.0/16}]"), one("ns", "b", young, "[{cidr: 192.168.0.0/16, except: [192.168.128.0/17]}]")}, "ns/b", ""},
		{"excepts larger than the network", []string{one("ns", "a", old, "[{cidr: 192.168.0.4/32}]"), one("ns", "b", young, "[{cidr: 192.168.0.0/24, except: [172.0.0.0/8]}]")}, "ns/b", ""},
		{"an empty list matches nothing", []string{one("ns", "a", old, "[]")}, "", ""},
		{"all that is not the cluster's", []string{one("ns", "a", old, "")}, "ns/a", ""},
		{"all that is not the cluster's, IPv6", []string{one("ns", "a", old, "")}, "ns/a", "2001:db8::1"},
		{"IPv6 sizes are exact", []string{one("ns", "a", old, "[{cidr: '2001:db8::/32'}]"), one("ns", "b", young, "[{cidr: '2001:db8::/96'}]")}, "ns/b", "2001:db8::1"},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, config, func(t *testing.T, c *cluster) {
				c.apply(row.networks...)
				to := "192.168.0.4:80"
				if row.ip != "" {
					to = "[" + row.ip + "]:80"
				}
				want := "egress-fallback detect"
				if row.want != "" {
					want = "EgressNetwork " + row.want + ":80 detect"
				}
				wantText(t, want, head(c.get("ns", to)))
			})
		})
	}
}

// The cluster's own networks are not egress, even though an EgressNetwork may say so.
func TestClusterNetworksAreNotEgress(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(egress("all", "Allow", ""))
		wantText(t, "NotFound No such service", c.get("ns", "10.8.0.1:80"))
		wantText(t, "EgressNetwork ns/all:80 detect", head(c.get("ns", "1.1.1.1:80")))
		c.apply(egress("all", "Allow", "[{cidr: 10.0.0.0/8}]"))
		wantText(t, "EgressNetwork ns/all:80 detect", head(c.get("ns", "10.8.0.1:80")))
		wantText(t, "egress-fallback detect", head(c.get("ns", "1.1.1.1:80")))
	})
}

// The networks of an EgressNetwork that names none leave out the cluster's, in both families.
func TestDefaultEgressNetworks(t *testing.T) {
	config := defaultConfig()
	config.ClusterNetworks = linkerd.MustParseNetworks("10.0.0.0/8,fd00::/8")
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.apply(egress("all", "Allow", ""))
		for to, want := range map[string]string{
			"10.8.0.1:80": "NotFound No such service", "[fd00::1]:80": "NotFound No such service",
			"11.0.0.1:80": "EgressNetwork ns/all:80 detect", "[2001:db8::1]:80": "EgressNetwork ns/all:80 detect",
		} {
			wantText(t, want, head(c.get("ns", to)))
		}
		// What is left of all addresses is more than half of them.
		c.apply(born(egress("half", "Allow", "[{cidr: 0.0.0.0/1}, {cidr: '::/1'}]"), "2027-01-01T00:00:00Z"))
		wantText(t, "EgressNetwork ns/half:80 detect", head(c.get("ns", "11.0.0.1:80")))
		wantText(t, "EgressNetwork ns/half:80 detect", head(c.get("ns", "[2001:db8::1]:80")))
	})
}

// Streams end when their address stands for something else.
func TestEgressStreams(t *testing.T) {
	scenario(t, "P150 P151 P293 P294", defaultConfig(), func(t *testing.T, c *cluster) {
		s := c.watch("ns", "1.1.1.1:80")
		other := c.watch("other", "1.1.1.1:80")
		s.want(fallbackPolicy)
		other.want(fallbackPolicy)

		c.apply(egress("my-egress", "Allow", ""))
		s.want()
		if s.End() != "OK" {
			t.Errorf("P150: %q", s.End())
		}
		if other.End() != "" {
			t.Error("the stream of another namespace ended: it has not changed")
		}

		s = c.watch("ns", "1.1.1.1:4191")
		s.want(egressPolicy)
		c.apply(egress("my-egress", "Allow", "", "x: y"))
		s.want()
		c.apply(egress("my-egress", "Deny", ""))
		s.want(strings.NewReplacer("egress-allow", "egress-deny",
			"  -> first", "  filters forbidden:{} -> first",
			"(path:{prefix:/})", "(path:{prefix:/}) filters failure_injector:{status:403 message:traffic not allowed}").Replace(egressPolicy))
		if s.End() != "" {
			t.Errorf("the address stands for what it did: %q", s.End())
		}
		// A policy that changes together with what the address stands for is sent before the end.
		c.apply(egress("my-egress", "Allow", "[{cidr: 2.0.0.0/8}]"))
		s.want(egressPolicy)
		if s.End() != "OK" {
			t.Errorf("the address is in no network: %q", s.End())
		}

		c.apply(egress("my-egress", "Allow", ""))
		s = c.watch("ns", "1.1.1.1:4191")
		s.want(egressPolicy)
		c.remove("EgressNetwork/ns/my-egress")
		s.want()
		if s.End() != "OK" {
			t.Errorf("P151: %q", s.End())
		}
		wantText(t, fallbackPolicy, c.get("ns", "1.1.1.1:80"))
	})
}

// Of an EgressNetwork that is not known, nothing is known to be allowed (policy-outbound 8).
func TestUnknownEgressNetworkDenies(t *testing.T) {
	b := builder{target: target{Reference: gateway.Reference{Kind: gateway.EgressNetwork, Namespace: "ns", Name: "gone"}, port: 80, address: netip.MustParseAddrPort("1.1.1.1:80")}}
	wantText(t, `
		EgressNetwork ns/gone:80 detect
		opaque tcp-egress-deny
		  filters forbidden:{} -> first EgressNetwork ns/gone:80 at 1.1.1.1:80
		http http-egress-deny
		  (path:{prefix:/}) filters failure_injector:{status:403 message:traffic not allowed} -> first EgressNetwork ns/gone:80 at 1.1.1.1:80`, summary(b.build()))
}

// A namespace's first EgressNetwork takes clients from the global one.
func TestOwnEgressNetworkReplacesGlobal(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(egressOf("linkerd-egress", "global", "Allow", ""))
		s := c.watch("ns", "1.1.1.1:80")
		wantText(t, "EgressNetwork linkerd-egress/global:80 detect", head(summary(s.Take()[0])))
		c.apply(egress("mine", "Allow", ""))
		if s.End() != "OK" {
			t.Errorf("%q", s.End())
		}
		wantText(t, "EgressNetwork ns/mine:80 detect", head(c.get("ns", "1.1.1.1:80")))
	})
}

// A more specific network of the same namespace ends streams; others do not.
func TestMoreSpecificEgressNetwork(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(egress("all", "Allow", ""))
		s, unaffected := c.watch("ns", "1.1.1.1:80"), c.watch("ns", "2.1.1.1:80")
		c.apply(egress("some", "Allow", "[{cidr: 1.1.1.0/24}]"))
		if got := fmt.Sprint(s.End(), unaffected.End()); got != "OK" {
			t.Errorf("%q", got)
		}
	})
}
