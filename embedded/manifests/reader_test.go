package manifests

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// An input that does not answer keeps the instance neither from getting ready nor
// from stopping, and is named; what it has counts once it comes.
func TestReadingThatDoesNotEnd(t *testing.T) {
	rulebook.Covers(t, "F4")
	b := newBench(t)
	silent, answer := io.Pipe()
	var later atomic.Int64
	b.edit = func(cfg *Config) {
		cfg.Dirs, cfg.Stdin = []string{"-"}, silent
		// At each look the clock is a second later: patience ends soon.
		cfg.now = func() time.Time { return time.Now().Add(time.Duration(later.Add(1)) * time.Second) }
	}
	b.start()
	b.prints("standard input: reading has taken more than 10s and goes on")
	if faults := b.sync.Status().Faults; len(faults) != 1 {
		t.Errorf("the status has %v", faults)
	}
	if _, err := io.WriteString(answer, cm("late", "1")); err != nil {
		t.Fatal(err)
	}
	must(t, answer.Close())
	b.has(configMap("late"))
	b.inSync()
	b.stop()

	again := newBench(t)
	never, _ := io.Pipe()
	again.edit = func(cfg *Config) { b.edit(cfg); cfg.Stdin = never }
	again.start()
	again.stop()
}
