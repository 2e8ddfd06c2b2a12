package linkerd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// ParsePolicyPorts reads a comma-separated list of ports and ranges as the policy
// controller does (policy-inbound 4.3): items and the ends of ranges are
// trimmed, empty items are skipped, and one bad item spoils the whole list,
// since a list that is half understood may open what was meant to be closed.
// ParsePortSet, which destination and the injector use, is more lenient, as
// Linkerd has one grammar in Rust and one in Go.
func ParsePolicyPorts(list string) (PortSet, error) {
	var ranges []PortRange
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		l, err := parsePort(low)
		if err != nil {
			return PortSet{}, fmt.Errorf("ports %q: %w", printable.Short(list), err)
		}
		h, err := parsePort(high)
		if err != nil {
			return PortSet{}, fmt.Errorf("ports %q: %w", printable.Short(list), err)
		}
		if h < l {
			return PortSet{}, fmt.Errorf("ports %q: range %q ends before it starts", printable.Short(list), printable.Short(item))
		}
		ranges = append(ranges, PortRange{Low: l, High: h})
	}
	return NewPortSet(ranges...), nil
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%q is no port from 1 to 65535", printable.Short(text))
	}
	return uint16(port), nil
}
