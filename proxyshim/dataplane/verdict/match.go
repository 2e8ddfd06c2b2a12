package verdict

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
)

// Request is what routes are chosen by.
type Request struct {
	Method string
	// Authority is the host, and perhaps a port, that the request is for.
	Authority string
	// Path is as on the wire, without the query.
	Path, RawQuery string
	Header         http.Header
}

// NewRequest takes these from a request that a server has read.
func NewRequest(r *http.Request) *Request {
	return &Request{Method: r.Method, Authority: r.Host, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Header: r.Header}
}

// host is the authority without its port.
func (r *Request) host() string {
	host, _, err := net.SplitHostPort(r.Authority)
	if err != nil {
		return r.Authority
	}
	return host
}

// Match is how a request was matched.
type Match struct {
	host hostRank
	rank rank
	// prefix is how much of the path a prefix matched, -1 if none did.
	prefix int
}

// rank orders matches of one kind: a greater one is preferred.
type rank [4]int

// hostRank orders matches of hosts: none, the longest suffix, the exact one.
type hostRank [2]int

// beats says whether m is preferred to other.
func (m Match) beats(other Match) bool {
	if c := slices.Compare(m.host[:], other.host[:]); c != 0 {
		return c > 0
	}
	return slices.Compare(m.rank[:], other.rank[:]) > 0
}

// matcher is a compiled match of a route.
type matcher func(*Request) (Match, bool)

// everything is the match of a rule that names none.
func everything(of rank, prefix int) []matcher {
	return []matcher{func(*Request) (Match, bool) { return Match{rank: of, prefix: prefix}, true }}
}

// Table finds the rule for a request; P is what a rule says. Immutable.
type Table[P any] struct{ routes []tableRoute[P] }

type tableRoute[P any] struct {
	hosts []*http_route.HostMatch
	rules []tableRule[P]
}

type tableRule[P any] struct {
	matches []matcher
	policy  P
}

// Find returns what the best rule says: that of the most specific host, then
// that of the most specific match, and of equals the first.
func (t *Table[P]) Find(r *Request) (policy P, best Match, ok bool) {
	for _, route := range t.routes {
		host, fits := bestHost(route.hosts, r.host())
		if !fits {
			continue
		}
		for _, rule := range route.rules {
			for _, match := range rule.matches {
				m, fits := match(r)
				m.host = host
				if fits && (!ok || m.beats(best)) {
					policy, best, ok = rule.policy, m, true
				}
			}
		}
	}
	return policy, best, ok
}

// bestHost ranks the best of a route's host matches; no hosts take all.
func bestHost(hosts []*http_route.HostMatch, host string) (best hostRank, ok bool) {
	for _, h := range hosts {
		var rank hostRank
		fits := false
		switch m := h.GetMatch().(type) {
		case *http_route.HostMatch_Exact:
			rank, fits = hostRank{2, len(m.Exact)}, equalHost(m.Exact, host)
		case *http_route.HostMatch_Suffix_:
			suffix := joinReversed(m.Suffix.GetReverseLabels())
			rank, fits = hostRank{1, len(suffix)}, hasHostSuffix(host, suffix)
		}
		if fits && (!ok || slices.Compare(rank[:], best[:]) > 0) {
			best, ok = rank, true
		}
	}
	return best, ok || len(hosts) == 0
}

// equalHost compares names; a final dot counts only if the match has one.
func equalHost(match, host string) bool {
	if !strings.HasSuffix(match, ".") {
		host = strings.TrimSuffix(host, ".")
	}
	return strings.EqualFold(match, host)
}

// hasHostSuffix says whether host lies below suffix, which begins with a dot.
func hasHostSuffix(host, suffix string) bool {
	if !strings.HasSuffix(suffix, ".") {
		host = strings.TrimSuffix(host, ".")
	}
	return len(host) > len(suffix) && strings.EqualFold(host[len(host)-len(suffix):], suffix)
}

// joinReversed is ".a.b" for the labels b, a.
func joinReversed(labels []string) string {
	var b strings.Builder
	for _, l := range slices.Backward(labels) {
		b.WriteByte('.')
		b.WriteString(l)
	}
	return b.String()
}

// httpMatchers compiles the matches of an HTTP rule. One that cannot be compiled
// never matches: what the control plane sends compiles, but for constructs of
// Rust's expressions that Go lacks.
func httpMatchers(matches []*http_route.HttpRouteMatch) []matcher {
	if len(matches) == 0 {
		return everything(rank{1}, 1)
	}
	var compiled []matcher
	for _, m := range matches {
		path := pathMatcher(m.GetPath())
		headers, query := headersMatcher(m.GetHeaders()), queryMatcher(m.GetQueryParams())
		method := methodName(m.GetMethod())
		rest := rank{0, 0, len(m.GetHeaders()), len(m.GetQueryParams())}
		if method != "" {
			rest[1] = 1
		}
		compiled = append(compiled, func(r *Request) (Match, bool) {
			if method != "" && method != r.Method {
				return Match{}, false
			}
			length, prefix, ok := path(r.Path)
			rest := rest
			rest[0] = length
			return Match{rank: rest, prefix: prefix}, ok && headers(r.Header) && query(r.RawQuery)
		})
	}
	return compiled
}

// pathMatcher tells how many characters matched, and how many by a prefix.
func pathMatcher(m *http_route.PathMatch) func(path string) (length, prefix int, ok bool) {
	switch kind := m.GetKind().(type) {
	case *http_route.PathMatch_Exact:
		return func(path string) (int, int, bool) { return len(path), -1, path == kind.Exact }
	case *http_route.PathMatch_Regex:
		whole := wholeMatch(kind.Regex)
		return func(path string) (int, int, bool) { return len(path), -1, whole(path) }
	case *http_route.PathMatch_Prefix:
		prefix := strings.TrimRight(kind.Prefix, "/")
		if prefix != "" {
			return func(path string) (int, int, bool) {
				rest, ok := strings.CutPrefix(strings.TrimRight(path, "/"), prefix)
				return len(prefix), len(prefix), ok && (rest == "" || rest[0] == '/')
			}
		}
	}
	return func(string) (int, int, bool) { return 1, 1, true }
}

// wholeMatch says whether the first match of an expression is all of a text.
func wholeMatch(expression string) func(string) bool {
	re, err := regexp.Compile(expression)
	if err != nil {
		return func(string) bool { return false }
	}
	return func(text string) bool {
		at := re.FindStringIndex(text)
		return at != nil && at[0] == 0 && at[1] == len(text)
	}
}

// anchored compiles an expression that is for the whole of a text.
func anchored(expression string) (*regexp.Regexp, error) {
	if !strings.HasPrefix(expression, "^") {
		expression = "^" + expression
	}
	if !strings.HasSuffix(expression, "$") {
		expression += "$"
	}
	return regexp.Compile(expression)
}

func headersMatcher(matches []*http_route.HeaderMatch) func(http.Header) bool {
	var all []func(http.Header) bool
	for _, m := range matches {
		is := func(value string) bool { return value == string(m.GetExact()) }
		if _, ok := m.GetValue().(*http_route.HeaderMatch_Regex); ok {
			is = wholeMatch(m.GetRegex())
		}
		name := http.CanonicalHeaderKey(m.GetName())
		all = append(all, func(h http.Header) bool { return slices.ContainsFunc(h[name], is) })
	}
	return func(h http.Header) bool {
		return !slices.ContainsFunc(all, func(fits func(http.Header) bool) bool { return !fits(h) })
	}
}

func queryMatcher(matches []*http_route.QueryParamMatch) func(string) bool {
	if len(matches) == 0 {
		return func(string) bool { return true }
	}
	var is []func(string) bool
	for _, m := range matches {
		if _, ok := m.GetValue().(*http_route.QueryParamMatch_Regex); ok {
			is = append(is, wholeMatch(m.GetRegex()))
		} else {
			is = append(is, func(value string) bool { return value == m.GetExact() })
		}
	}
	return func(raw string) bool {
		values, _ := url.ParseQuery(raw) // what cannot be parsed is left out
		for i, m := range matches {
			if !slices.ContainsFunc(values[m.GetName()], is[i]) {
				return false
			}
		}
		return true
	}
}

// methodName is empty if any method matches.
func methodName(m *http_types.HttpMethod) string {
	switch kind := m.GetType().(type) {
	case *http_types.HttpMethod_Registered_:
		return kind.Registered.String()
	case *http_types.HttpMethod_Unregistered:
		return kind.Unregistered
	}
	return ""
}

// grpcMatchers compiles the matches of a gRPC rule.
func grpcMatchers(matches []*grpc_route.GrpcRouteMatch) []matcher {
	if len(matches) == 0 {
		return everything(rank{}, -1)
	}
	var compiled []matcher
	for _, m := range matches {
		headers := headersMatcher(m.GetHeaders())
		service, method := m.GetRpc().GetService(), m.GetRpc().GetMethod()
		of := Match{rank: rank{len(service), len(method), len(m.GetHeaders())}, prefix: -1}
		compiled = append(compiled, func(r *Request) (Match, bool) {
			parts := strings.Split(r.Path, "/")
			return of, r.Method == http.MethodPost && len(parts) >= 3 && parts[0] == "" &&
				(service == "" || service == parts[1]) && (method == "" || method == parts[2]) && headers(r.Header)
		})
	}
	return compiled
}
