package embedded

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The control plane's objects are written at the start, when a certificate was
// replaced, and again when that failed; at no other time.
func TestObjectKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := newObjectKeeper(slog.New(slog.DiscardHandler))
		var writes int
		var failure error
		write := func(context.Context) error {
			writes++
			if writes == 1 {
				// Replaced while the objects are written: too late for this write.
				keeper.certificateReplaced()
			}
			return failure
		}
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := false, make(chan error, 1)
		go func() { ended <- keeper.run(ctx, func() { ready = true }, write) }()
		after := func(wait time.Duration, want int, when string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if writes != want {
				t.Errorf("%s: %d writes, want %d", when, writes, want)
			}
		}
		after(time.Hour, 2, "at the start")
		if !ready {
			t.Error("not ready after the first write")
		}
		keeper.certificateReplaced()
		after(time.Hour, 3, "one replaced")
		failure = errors.New("no answer")
		keeper.certificateReplaced()
		after(objectsRetry/2, 4, "a write that fails")
		failure = nil
		after(objectsRetry, 5, "after its repetition")
		after(time.Hour, 5, "after that")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	err := newObjectKeeper(slog.New(slog.DiscardHandler)).run(t.Context(), func() { t.Error("ready") }, func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("a first write that fails: %v", err)
	}
}
