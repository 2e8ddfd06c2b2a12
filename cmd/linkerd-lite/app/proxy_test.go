package app

import (
	"errors"
	"strings"
	"testing"
)

// The stand-in says what it is, and ends as the real one does where its
// environment says too little.
func TestProxyWithoutEnvironment(t *testing.T) {
	var stderr strings.Builder
	err := runProxy(t.Context(), func(string) string { return "" }, &stderr)
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != exitEnvironment || !strings.Contains(err.Error(), "LINKERD2_PROXY_") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(stderr.String(), "a stand-in, not linkerd2-proxy") {
		t.Errorf("it says %q", stderr.String())
	}
}
