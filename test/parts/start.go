// Package parts runs parts of the program while a test lasts.
package parts

import (
	"context"
	"sync"
	"testing"
	"time"
)

// stopPatience is how long a part may take to stop.
const stopPatience = 10 * time.Second

// Start runs a part until stop is called or the test ends, and returns when it
// is ready. The test fails if that takes longer than patience, if the part ends
// before, or if it ever ends with an error.
func Start(tb testing.TB, patience time.Duration, run func(ctx context.Context, ready func()) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, func() { close(ready) }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("the part ended with: %v", err)
			}
		case <-time.After(stopPatience):
			tb.Errorf("the part has not stopped within %v", stopPatience)
		}
	})
	tb.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil // for stop
		tb.Fatalf("the part ended before it was ready: %v", err)
	case <-time.After(patience):
		tb.Fatalf("the part is not ready within %v", patience)
	}
	return stop
}
