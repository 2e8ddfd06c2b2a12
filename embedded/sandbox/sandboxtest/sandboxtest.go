// Package sandboxtest starts sandboxes in tests, whose own binary is the first
// process in there.
package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
)

// childEnv makes a test binary the first process of a sandbox.
const childEnv = "SANDBOX_TEST_CHILD"

// Main is what TestMain has to be where Start is used.
func Main(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := sandbox.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Start starts a sandbox with that network, which ends with the test. Where this
// machine allows none, the test is skipped.
func Start(t *testing.T, config sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	t.Setenv(childEnv, "1")
	config.Command, config.Stderr = []string{os.Args[0]}, os.Stderr
	s, err := sandbox.Start(config)
	if errors.Is(err, sandbox.ErrForbidden) || errors.Is(err, sandbox.ErrNoIPv6) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
