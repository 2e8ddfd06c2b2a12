package admission

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	spiffeScheme = "spiffe://"
	dnsLike      = `^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
)

var dnsLikePattern = regexp.MustCompile(dnsLike)

// checkIdentity checks the syntax of an identity, which is a SPIFFE ID, or a name in DNS, whole or as suffix after "*.".
func checkIdentity(identity string) error {
	id, spiffe := strings.CutPrefix(identity, spiffeScheme)
	if !spiffe {
		if !dnsLikePattern.MatchString(identity) {
			return fmt.Errorf("it is neither a SPIFFE ID nor a name that matches %s", dnsLike)
		}
		return nil
	}
	domain, path, hasPath := strings.Cut(id, "/")
	if domain == "" {
		return errors.New("it has no trust domain")
	}
	for _, char := range []byte(domain) {
		if !isLower(char) && !isDigit(char) && !isMark(char) {
			return fmt.Errorf("its trust domain has the character %q", char)
		}
	}
	if !hasPath {
		return nil
	}
	for _, char := range []byte(path) {
		if !isLower(char) && !isLower(char|0x20) && !isDigit(char) && !isMark(char) && char != '/' {
			return fmt.Errorf("its path has the character %q", char)
		}
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		switch {
		case segment == "" && i == len(segments)-1:
			return errors.New("its path ends with a slash")
		case segment == "":
			return errors.New("its path has an empty segment")
		case segment == "." || segment == "..":
			return fmt.Errorf("its path has the segment %q", segment)
		}
	}
	return nil
}

func isLower(char byte) bool { return 'a' <= char && char <= 'z' }

func isDigit(char byte) bool { return '0' <= char && char <= '9' }

func isMark(char byte) bool { return char == '-' || char == '.' || char == '_' }
