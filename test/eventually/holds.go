// Package eventually waits for what nothing tells of.
package eventually

import (
	"testing"
	"time"
)

// interval is the time between two looks.
const interval = 2 * time.Millisecond

// Holds waits until a condition holds. If it does not within patience, the test
// fails with what was waited for and with details, which may be nil.
func Holds(tb testing.TB, patience time.Duration, what string, condition func() bool, details func() string) {
	tb.Helper()
	deadline := time.After(patience)
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
			tb.Fatalf("waited in vain for %v: %s%s", patience, what, text)
		}
	}
}
