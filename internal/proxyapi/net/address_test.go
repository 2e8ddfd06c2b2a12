package net_test

import (
	"net/netip"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// An address stays what it is on its way to the wire and back; mapped ones are of IPv6.
func TestAddresses(t *testing.T) {
	for text, six := range map[string]bool{"10.0.0.12:80": false, "0.0.0.0:65535": false, "[2001:db8::1]:1": true, "[::ffff:10.0.0.1]:2": true} {
		want := netip.MustParseAddrPort(text)
		wire := net.NewTcpAddress(want)
		if got := wire.AddrPort(); got != want {
			t.Errorf("%s becomes %s", text, got)
		}
		if got := wire.GetIp().GetIpv6() != nil; got != six {
			t.Errorf("%s is of IPv6: %v", text, got)
		}
	}
	first := net.NewIPAddress(netip.MustParseAddr("2001:db8::1")).GetIpv6()
	if first.GetFirst() != 0x20010db8<<32 || first.GetLast() != 1 {
		t.Errorf("halves %x and %x", first.GetFirst(), first.GetLast())
	}
	if got := net.NewIPAddress(netip.MustParseAddr("10.0.0.1")).GetIpv4(); got != 10<<24+1 {
		t.Errorf("number %x", got)
	}
	for _, none := range []*net.IPAddress{nil, {}} {
		if addr := none.Addr(); addr.IsValid() {
			t.Errorf("%v is %s", none, addr)
		}
	}
}

// Host bits are sent as they are.
func TestNetworks(t *testing.T) {
	rulebook.Covers(t, "P107")
	got := net.NewIPNetwork(netip.MustParsePrefix("192.0.2.1/24"))
	if got.GetIp().GetIpv4() != 0xC0000201 || got.GetPrefixLen() != 24 {
		t.Errorf("%v", got)
	}
	got = net.NewIPNetwork(netip.MustParsePrefix("fd00::1/64"))
	if got.GetIp().GetIpv6().GetFirst() != 0xfd00<<48 || got.GetIp().GetIpv6().GetLast() != 1 || got.GetPrefixLen() != 64 {
		t.Errorf("IPv6: %v", got)
	}
}
