package injector

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

func (s *settings) warn(format string, args ...any) {
	s.warnings = append(s.warnings, "linkerd-proxy: "+fmt.Sprintf(format, args...))
}

// lookup returns an annotation of the pod, else of the namespace.
func (s *settings) lookup(key string) (string, bool) {
	value, ok := s.pod.Annotations[key]
	if !ok {
		value, ok = s.namespace.Annotations[key]
	}
	return value, ok
}

func (s *settings) value(key, otherwise string) string {
	if value, ok := s.lookup(key); ok {
		return value
	}
	return otherwise
}

func (s *settings) bool(key string, otherwise bool) bool {
	value, ok := s.lookup(key)
	if !ok {
		return otherwise
	}
	parsed, err := strconv.ParseBool(value)
	if err != nil {
		s.warn("annotation %s: %.100q is neither true nor false, %t is used", key, value, otherwise)
		return otherwise
	}
	return parsed
}

// switched is a setting that is on or off by the words of Linkerd's chart.
func (s *settings) switched(key string, otherwise bool) bool {
	return s.choice(key, map[bool]string{true: injectEnabled, false: injectDisabled}[otherwise], injectEnabled, injectDisabled) == injectEnabled
}

// choice is one of a few values.
func (s *settings) choice(key, otherwise string, choices ...string) string {
	value, ok := s.lookup(key)
	if !ok || slices.Contains(choices, value) {
		return cmp.Or(value, otherwise)
	}
	s.warn("annotation %s: %.100q is none of %s; %s", key, value, strings.Join(choices, ", "), instead(otherwise))
	return otherwise
}

// duration is a Go duration as the proxy reads it: it knows no fractions and no
// sums. Like Linkerd, it is rounded down to unit.
func (s *settings) duration(key, otherwise string, unit time.Duration) string {
	value, ok := s.lookup(key)
	if !ok {
		return otherwise
	}
	parsed, err := time.ParseDuration(value)
	if err != nil || parsed < 0 {
		s.warn("annotation %s: %.100q is not a duration such as 1.5s; %s", key, value, instead(otherwise))
		return otherwise
	}
	return strconv.FormatInt(int64(parsed/unit), 10) + map[time.Duration]string{time.Millisecond: "ms", time.Second: "s"}[unit]
}

// ports is a list of ports and ranges, without the items that are neither.
// named, which may be nil, returns the ports behind names.
func (s *settings) ports(key, list string, named func(string) (uint16, bool)) string {
	var good, bad []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if set, err := linkerd.ParsePortSet(item, named); err != nil {
			bad = append(bad, fmt.Sprintf("%.20q", item))
		} else {
			good = append(good, set.String())
		}
	}
	if n := len(bad); n > 0 {
		more := ""
		if n > maxListed {
			more = fmt.Sprintf(" and %d more", n-maxListed)
		}
		s.warn("annotation %s: left out, being no ports, ranges or names of ports: %s%s", key, strings.Join(bad[:min(n, maxListed)], ", "), more)
	}
	return strings.Join(good, ",")
}

// maxListed is how many bad items of a list a warning names.
const maxListed = 5

// instead says what counts in the place of a value that means nothing.
func instead(otherwise string) string {
	if otherwise == "" {
		return "none is used"
	}
	return otherwise + " is used"
}

func (s *settings) port(key string, otherwise int32) int32 {
	value, ok := s.lookup(key)
	if !ok {
		return otherwise
	}
	parsed, err := strconv.ParseUint(value, 10, 16)
	if err != nil || parsed == 0 {
		s.warn("annotation %s: %.100q is not a port, %d is used", key, value, otherwise)
		return otherwise
	}
	return int32(parsed)
}
