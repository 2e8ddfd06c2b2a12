package routes

import (
	"fmt"
	"regexp"
)

// proxySyntax matches what proxies' syntax has in common with Go's, which also
// takes a brace that is no repetition for itself, quotes with \Q and knows
// octal numbers.
var proxySyntax = regexp.MustCompile(`(?s)^(?:\\[pPx]\{[^}]*\}|\\[^Q0-9]|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\{(?:\d+(?:,\d*)?|,\d+)\}|[^\\\[{])*$`)

// Expression checks a regular expression. Proxies compile it themselves, and
// refuse a whole policy that has one which they cannot compile (policy-inbound 8.4).
func Expression(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return err
	}
	if !proxySyntax.MatchString(text) {
		return fmt.Errorf("%q has { that is no repetition, \\Q or an octal number, which proxies do not understand", text)
	}
	return nil
}
