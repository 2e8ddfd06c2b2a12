package problems

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestTextIsTheSameAtEachTry(t *testing.T) {
	rulebook.Covers(t, "F11")
	failed := func(port int) error {
		return fmt.Errorf("list pods: %w", &url.Error{Op: "Get", URL: fmt.Sprintf("https://east/pods?timeout=%d", port), Err: &net.OpError{
			Op: "read", Net: "tcp", Err: errors.New("connection reset by peer"),
			Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 6443},
		}})
	}
	const want = `list pods: Get "https://east/pods": read tcp 10.0.0.2:6443: connection reset by peer`
	for _, err := range []error{failed(40001), failed(40002), errors.New(want)} {
		if got := Text(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
