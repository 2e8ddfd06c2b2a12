package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Network is a range of addresses without some of its parts.
type Network struct {
	CIDR CIDR `json:"cidr"`
	// +optional
	Except []CIDR `json:"except,omitempty"`
}

// UnmarshalJSON refuses a network without cidr.
func (n *Network) UnmarshalJSON(data []byte) error {
	type plain Network
	if err := json.Unmarshal(data, (*plain)(n)); err != nil {
		return err
	}
	if n.CIDR == "" {
		return fmt.Errorf("cidr: required")
	}
	return nil
}

// CIDR is an address range ("10.0.0.0/8") or a single address ("10.1.2.3"), as written.
type CIDR string

// UnmarshalJSON refuses text that is neither an address nor a range: an object with such text does not decode.
func (c *CIDR) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("cidr: %w", err)
	}
	if _, err := CIDR(text).Prefix(); err != nil {
		return err
	}
	*c = CIDR(text)
	return nil
}

// Prefix parses the range. A single address is a range of length one; host bits are kept.
func (c CIDR) Prefix() (netip.Prefix, error) {
	if strings.Contains(string(c), "/") {
		prefix, err := netip.ParsePrefix(string(c))
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("cidr: %q is no address range: %w", string(c), err)
		}
		return prefix, nil
	}
	addr, err := netip.ParseAddr(string(c))
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("cidr: %q is neither an address nor an address range", string(c))
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}
