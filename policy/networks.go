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

// Network is the message form of a range. Host bits are sent as they are (P107).
func Network(network netip.Prefix) *net.IPNetwork {
	return &net.IPNetwork{Ip: net.NewIPAddress(network.Addr()), PrefixLen: uint32(network.Bits())}
}
