package verdict

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// The bounds of a ServiceProfile's retries that are not in its messages.
const (
	profileRetries = 100
	profileBytes   = 64 << 10
)

// profileName is NAME:PORT of the profile, empty if it has no name.
func (s Sources) profileName() string {
	name := strings.TrimSuffix(s.Profile.GetFullyQualifiedName(), ".")
	if name == "" {
		return ""
	}
	return net.JoinHostPort(name, strconv.Itoa(int(s.Original.Port())))
}

// overrides is how the profile splits requests, nil if it does not.
func (s Sources) overrides(name string) *Distribution {
	d := &Distribution{Random: true}
	for _, o := range s.Profile.GetDstOverrides() {
		if _, _, err := net.SplitHostPort(o.GetAuthority()); err != nil || o.GetWeight() == 0 {
			continue
		}
		b := balanced(o.GetAuthority(), o.GetBackendRef())
		b.Weight = o.GetWeight()
		d.Backends = append(d.Backends, b)
	}
	if len(d.Backends) == 0 || name == "" {
		return nil
	}
	return d
}

// profileTable is the profile's routes in their order, and one for the rest.
func (s Sources) profileTable(name string) *Table[*Rule] {
	backends := single(balanced(name, s.Profile.GetParentRef()))
	if split := s.overrides(name); split != nil {
		backends = *split
	}
	var route tableRoute[*Rule]
	for _, r := range s.Profile.GetRoutes() {
		matches, ok := requestMatcher(r.GetCondition())
		if !ok {
			continue
		}
		rule := &Rule{Route: defaultMeta("profile"), Backends: backends, Request: duration(r.GetTimeout()), Labels: r.GetMetricsLabels()}
		if r.GetIsRetryable() && usable(s.Profile.GetRetryBudget()) {
			rule.Retry = &Retry{Max: profileRetries, MaxBytes: profileBytes, Budget: s.Profile.GetRetryBudget(), retryable: failureOf(r.GetResponseClasses())}
		}
		route.rules = append(route.rules, tableRule[*Rule]{[]matcher{func(r *Request) (Match, bool) { return Match{prefix: -1}, matches(r) }}, rule})
	}
	route.rules = append(route.rules, tableRule[*Rule]{everything(rank{}, -1), &Rule{Route: defaultMeta("profile"), Backends: backends, Labels: map[string]string{}}})
	return &Table[*Rule]{[]tableRoute[*Rule]{route}}
}

// usable says whether a budget allows any retries.
func usable(b *destination.RetryBudget) bool {
	ttl := duration(b.GetTtl())
	return b != nil && b.GetRetryRatio() >= 0 && b.GetRetryRatio() <= 1000 && ttl >= time.Second && ttl <= time.Minute
}

// requestMatcher compiles a condition; it is not ok without one, or if an
// expression does not compile.
func requestMatcher(m *destination.RequestMatch) (func(*Request) bool, bool) {
	switch kind := m.GetMatch().(type) {
	case *destination.RequestMatch_All:
		return matchSeq(kind.All.GetMatches(), true)
	case *destination.RequestMatch_Any:
		return matchSeq(kind.Any.GetMatches(), false)
	case *destination.RequestMatch_Not:
		inner, ok := requestMatcher(kind.Not)
		return func(r *Request) bool { return !inner(r) }, ok
	case *destination.RequestMatch_Path:
		re, err := anchored(kind.Path.GetRegex())
		return func(r *Request) bool { return re.MatchString(r.Path) }, err == nil
	case *destination.RequestMatch_Method:
		method := methodName(kind.Method)
		return func(r *Request) bool { return r.Method == method }, true
	}
	return nil, false
}

// matchSeq is true if all matches are as wanted: all of them, or not none.
func matchSeq(in []*destination.RequestMatch, all bool) (func(*Request) bool, bool) {
	var matches []func(*Request) bool
	for _, m := range in {
		match, ok := requestMatcher(m)
		if !ok {
			return nil, false
		}
		matches = append(matches, match)
	}
	return func(r *Request) bool {
		for _, m := range matches {
			if m(r) != all {
				return !all
			}
		}
		return all
	}, true
}

// failureOf says which answers are failures: the first class decides, else the
// status.
func failureOf(classes []*destination.ResponseClass) func(Outcome) bool {
	return func(o Outcome) bool {
		for _, c := range classes {
			if responseMatches(c.GetCondition(), o) {
				return c.GetIsFailure()
			}
		}
		return o.Failed()
	}
}

func responseMatches(m *destination.ResponseMatch, o Outcome) bool {
	switch kind := m.GetMatch().(type) {
	case *destination.ResponseMatch_All:
		for _, m := range kind.All.GetMatches() {
			if !responseMatches(m, o) {
				return false
			}
		}
		return true
	case *destination.ResponseMatch_Any:
		for _, m := range kind.Any.GetMatches() {
			if responseMatches(m, o) {
				return true
			}
		}
		return false
	case *destination.ResponseMatch_Not:
		return !responseMatches(kind.Not, o)
	case *destination.ResponseMatch_Status:
		low, high := int(kind.Status.GetMin()), int(kind.Status.GetMax())
		return low >= 100 && high >= 100 && o.Status >= low && o.Status <= high
	}
	return false
}
