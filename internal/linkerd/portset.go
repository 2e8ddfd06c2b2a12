package linkerd

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// PortRange is the ports from Low to High, both included.
type PortRange struct{ Low, High uint16 }

// PortSet is a set of ports. Its ranges are sorted, disjoint and not adjacent,
// so that equal sets are equal as values; a range is never spelt out (B29).
// The zero value is empty. Immutable.
type PortSet struct{ ranges []PortRange }

// NewPortSet returns the union of ranges.
func NewPortSet(ranges ...PortRange) PortSet {
	sorted := append([]PortRange(nil), ranges...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Low < sorted[j].Low })
	var merged []PortRange
	for _, r := range sorted {
		if n := len(merged); n > 0 && int(r.Low) <= int(merged[n-1].High)+1 {
			merged[n-1].High = max(merged[n-1].High, r.High)
			continue
		}
		merged = append(merged, r)
	}
	return PortSet{merged}
}

// Contains reports whether port, which may be any number, is in the set.
func (s PortSet) Contains(port uint32) bool {
	i := sort.Search(len(s.ranges), func(i int) bool { return uint32(s.ranges[i].High) >= port })
	return i < len(s.ranges) && uint32(s.ranges[i].Low) <= port
}

// Equal reports whether both sets hold the same ports.
func (s PortSet) Equal(other PortSet) bool {
	if len(s.ranges) != len(other.ranges) {
		return false
	}
	for i, r := range s.ranges {
		if r != other.ranges[i] {
			return false
		}
	}
	return true
}

// Ranges returns the set's ranges in order. Do not change them.
func (s PortSet) Ranges() []PortRange { return s.ranges }

// String is the set as ParsePortSet reads it.
func (s PortSet) String() string {
	items := make([]string, len(s.ranges))
	for i, r := range s.ranges {
		items[i] = strconv.Itoa(int(r.Low))
		if r.High != r.Low {
			items[i] += "-" + strconv.Itoa(int(r.High))
		}
	}
	return strings.Join(items, ",")
}

// ParsePortSet reads a comma-separated list of ports and ranges as annotations
// and flags hold it (D 3.6): items are trimmed, one trailing comma is
// tolerated. Each item is first given to named, which may be nil and returns
// the ports behind a name. The set holds all items that are good; the error
// joins what is wrong with the first others, and counts the rest.
func ParsePortSet(list string, named func(string) (uint16, bool)) (PortSet, error) {
	if strings.TrimSpace(list) == "" {
		return PortSet{}, nil
	}
	var ranges []PortRange
	var errs []error
	bad := 0
	items := strings.Split(list, ",")
	if n := len(items); n > 1 && strings.TrimSpace(items[n-1]) == "" {
		items = items[:n-1]
	}
	for _, item := range items {
		item = strings.TrimSpace(item)
		if named != nil {
			if port, ok := named(item); ok {
				ranges = append(ranges, PortRange{port, port})
				continue
			}
		}
		r, err := parsePortRange(item)
		if err != nil {
			if bad++; bad <= maxPortErrors {
				errs = append(errs, err)
			}
			continue
		}
		ranges = append(ranges, r)
	}
	if bad > maxPortErrors {
		errs = append(errs, fmt.Errorf("and %d more", bad-maxPortErrors))
	}
	return NewPortSet(ranges...), errors.Join(errs...)
}

// maxPortErrors is how many bad items of one list are named.
const maxPortErrors = 5

func parsePortRange(item string) (PortRange, error) {
	low, high, isRange := strings.Cut(item, "-")
	if !isRange {
		high = low
	}
	l, err := strconv.ParseUint(strings.TrimSpace(low), 10, 16)
	if err != nil {
		return PortRange{}, fmt.Errorf("port %q is neither a number up to 65535, a range nor a known name", printable.Short(item))
	}
	h, err := strconv.ParseUint(strings.TrimSpace(high), 10, 16)
	if err != nil {
		return PortRange{}, fmt.Errorf("port %q is neither a number up to 65535, a range nor a known name", printable.Short(item))
	}
	if h < l {
		return PortRange{}, fmt.Errorf("port range %q ends before it starts", printable.Short(item))
	}
	return PortRange{uint16(l), uint16(h)}, nil
}
