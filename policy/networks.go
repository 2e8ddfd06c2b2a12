package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// ParseNetworks reads a comma-separated list of address ranges, as flags hold
// it (policy-inbound 1.2). Items are trimmed, a bare address is a range of its
// own, host bits are kept; an empty list has no ranges.
func ParseNetworks(list string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for _, item := range strings.Split(list, ",") {
		network, err := policy.CIDR(strings.TrimSpace(item)).Prefix()
		if err != nil {
			return nil, fmt.Errorf("networks %q: %w", list, err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// Address is the message form of an address (policy-inbound 3.2).
func Address(addr netip.Addr) *net.IPAddress {
	if addr.Is4() {
		b := addr.As4()
		return &net.IPAddress{Ip: &net.IPAddress_Ipv4{Ipv4: uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])}}
	}
	b := addr.As16()
	half := func(b []byte) (n uint64) {
		for _, x := range b {
			n = n<<8 | uint64(x)
		}
		return n
	}
	return &net.IPAddress{Ip: &net.IPAddress_Ipv6{Ipv6: &net.IPv6{First: half(b[:8]), Last: half(b[8:])}}}
}

// Network is the message form of a range. Host bits are sent as they are (P107).
func Network(network netip.Prefix) *net.IPNetwork {
	return &net.IPNetwork{Ip: Address(network.Addr()), PrefixLen: uint32(network.Bits())}
}
