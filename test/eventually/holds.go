// Package eventually waits for what nothing tells of.
package eventually

import (
	"os"
	"testing"
	"time"
)

const (
	// Patience is how long a test waits for what must happen: it is only ever spent by
	// a test that fails, so it suits slow machines that do other things too.
	Patience = time.Minute
	// interval is the time between two looks.
	interval = 2 * time.Millisecond
)

// Allowed is how long may be taken by what is promised to take at most limit on a quiet
// machine. LINKERD_LITE_QUIET=1 says that this is one; elsewhere ten times as much is allowed.
func Allowed(limit time.Duration) time.Duration {
	if os.Getenv("LINKERD_LITE_QUIET") == "1" {
		return limit
	}
	return 10 * limit
}

// Holds waits until a condition holds. If it does not within Patience, the test
// fails with what was waited for and with details, which may be nil.
func Holds(tb testing.TB, what string, condition func() bool, details func() string) {
	tb.Helper()
	deadline := time.After(Patience)
	look := time.NewTicker(interval)
	defer look.Stop()
	for !condition() {
		select {
		case <-look.C:
		case <-deadline:
			text := ""
			if details != nil {
				text = "; " + details()
			}
			tb.Fatalf("waited in vain for %v: %s%s", Patience, what, text)
		}
	}
}
