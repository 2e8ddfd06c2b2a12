package problems

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// Text is err without what differs at each try, so that the same failure is one
// problem: the port that a connection had on this side, and what a URL has
// after its path.
func Text(err error) string {
	text := err.Error()
	var asked *url.Error
	if errors.As(err, &asked) {
		if path, query, ok := strings.Cut(asked.URL, "?"); ok {
			text = strings.ReplaceAll(text, path+"?"+query, path)
		}
	}
	var failed *net.OpError
	if errors.As(err, &failed) && failed.Source != nil {
		text = strings.ReplaceAll(text, failed.Source.String()+"->", "")
	}
	return text
}
