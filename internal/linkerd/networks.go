package linkerd

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// Networks are address ranges, with the text that they were read from: proxies
// and tools are shown that. The zero value has none. Immutable.
type Networks struct {
	text   string
	ranges []netip.Prefix
}

// ParseNetworks reads a comma-separated list of address ranges, as flags hold
// it (policy-inbound 1.2). Items are trimmed, a bare address is a range of its
// own, host bits are kept; an empty list has no ranges.
func ParseNetworks(list string) (Networks, error) {
	networks := Networks{text: list}
	if strings.TrimSpace(list) == "" {
		return networks, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		network, err := policy.CIDR(strings.TrimSpace(item)).Prefix()
		if err != nil {
			return Networks{}, fmt.Errorf("networks %q: %w", list, err)
		}
		networks.ranges = append(networks.ranges, network)
	}
	return networks, nil
}

// MustParseNetworks is ParseNetworks for lists of our own. It panics on a bad one.
func MustParseNetworks(list string) Networks {
	return must(ParseNetworks(list))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Ranges are in the order of the list. Do not change them.
func (n Networks) Ranges() []netip.Prefix { return n.ranges }

// String is the list as it was written.
func (n Networks) String() string { return n.text }

// MarshalText implements encoding.TextMarshaler.
func (n Networks) MarshalText() ([]byte, error) { return []byte(n.text), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Networks) UnmarshalText(text []byte) error {
	networks, err := ParseNetworks(string(text))
	if err == nil {
		*n = networks
	}
	return err
}
