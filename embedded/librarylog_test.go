package embedded

import (
	"sync"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A fatal line is told from what other goroutines log at the same time.
func TestLastLineIsOfItsGoroutine(t *testing.T) {
	rulebook.Covers(t, "C14")
	lines := new(lastLines)
	if got := lines.ofCaller(); got != "" {
		t.Errorf("before the first line: %q", got)
	}
	lines.add("network is unreachable")
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for range 10 {
				lines.add("Requeue")
			}
		})
	}
	others.Wait()
	if got := lines.ofCaller(); got != "network is unreachable" {
		t.Errorf("the cause is lost: %q", got)
	}
	for range 100 {
		others.Go(func() { lines.add("more") })
	}
	others.Wait()
	if got := lines.ofCaller(); got != "more" {
		t.Errorf("long after: %q, want the newest", got)
	}
}
