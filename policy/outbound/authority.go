package outbound

import (
	"errors"
	"strconv"
	"strings"
)

const defaultPort = 80

var (
	errNoAuthority = errors.New("invalid authority")
	errNoHost      = errors.New("authority must have a host")
)

// splitAuthority splits the authority of a URI (RFC 3986, 3.2). Without a port
// that is one, the port is 0.
func splitAuthority(text string) (host string, port uint16, err error) {
	if !isAuthority(text) {
		return "", 0, errNoAuthority
	}
	host = text[strings.LastIndexByte(text, '@')+1:]
	rest := ""
	if end := strings.IndexByte(host, ']'); end >= 0 {
		host, rest = host[:end+1], host[end+1:]
	} else if at := strings.IndexByte(host, ':'); at >= 0 {
		host, rest = host[:at], host[at:]
	}
	if host == "" {
		return "", 0, errNoHost
	}
	if number, err := strconv.ParseUint(strings.TrimPrefix(rest, ":"), 10, 16); err == nil {
		port = uint16(number)
	}
	return host, port, nil
}

// isAuthority checks characters and brackets, and that there is one colon at
// most outside of user information and brackets. Percent-encoding is for user
// information alone.
func isAuthority(text string) bool {
	user, rest := "", text
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		user, rest = text[:at], text[at+1:]
		if rest == "" {
			return false
		}
	}
	if rest == "" || strings.ContainsFunc(user, func(r rune) bool { return r != '%' && r != '@' && !isHostRune(r) }) {
		return false
	}
	if host, ok := strings.CutPrefix(rest, "["); ok {
		inner, after, closed := strings.Cut(host, "]")
		return closed && !strings.ContainsFunc(inner, func(r rune) bool { return !isHostRune(r) }) &&
			(after == "" || after[0] == ':') && isHostAndPort(after)
	}
	return isHostAndPort(rest)
}

func isHostAndPort(text string) bool {
	return strings.Count(text, ":") <= 1 && !strings.ContainsFunc(text, func(r rune) bool { return !isHostRune(r) })
}

// isHostRune accepts the unreserved characters and sub-delims of RFC 3986, and ":".
func isHostRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~!$&'()*+,;=:", r)
}

// serviceName reads a Service's name and namespace from a host (policy-outbound
// 1.2). What follows the label svc does not matter.
func serviceName(host, clusterDomain string) (name, namespace string, ok bool) {
	host = strings.TrimRight(host, ".")
	for clusterDomain != "" && strings.HasSuffix(host, clusterDomain) {
		host = strings.TrimSuffix(host, clusterDomain)
	}
	labels := strings.SplitN(host, ".", 4)
	if len(labels) < 3 || labels[0] == "" || labels[1] == "" || labels[2] != "svc" {
		return "", "", false
	}
	return labels[0], labels[1], true
}
