package app

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The values of flags. Every error names the flag, the value and what would be
// right; whoever gets one has used the program wrongly.

// flagError is about the value of a flag.
func flagError(flag, value, format string, args ...any) error {
	return fmt.Errorf("--%s=%s: %s", flag, value, fmt.Sprintf(format, args...))
}

// oneOf takes one of a few words.
func oneOf(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	last := len(words) - 1
	return flagError(flag, value, "must be %s or %s", strings.Join(words[:last], ", "), words[last])
}

// domain takes a DNS name such as cluster.local.
func domain(flag, value string) error {
	if len(validation.IsDNS1123Subdomain(value)) > 0 {
		return flagError(flag, value, "must be a DNS name, such as cluster.local")
	}
	return nil
}

// namespace takes the name of a namespace.
func namespace(flag, value string) error {
	if len(validation.IsDNS1123Label(value)) > 0 {
		return flagError(flag, value, "must be the name of a namespace, such as linkerd")
	}
	return nil
}

// jsonObject takes an object in JSON, or nothing.
func jsonObject(flag, value string) error {
	var object map[string]any
	if value == "" || json.Unmarshal([]byte(value), &object) == nil {
		return nil
	}
	return flagError(flag, value, "must be an object in JSON")
}

// parseRanges reads the ranges of a flag, where a single address is a mistake.
func parseRanges(flag, value string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for text := range strings.SplitSeq(value, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, flagError(flag, value, "must be one range of addresses or one of each family, such as 10.96.0.0/12,fd00:10:96::/112")
		}
		ranges = append(ranges, prefix.Masked())
	}
	return ranges, nil
}
