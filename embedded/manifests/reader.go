package manifests

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// debounce is how long a reading waits after an event, as one save makes several.
	debounce = 3 * time.Millisecond
	// readWithin is how long a reading may take before it is said that it does: a file system may
	// not answer at all.
	readWithin = 10 * time.Second
)

// reader reads the directories whenever they change. It has a goroutine to itself,
// as a file system can hold it up for ever.
type reader struct {
	scanner   *source.Scanner
	watcher   *source.Watcher
	now       func() time.Time
	pollEvery time.Duration
	// fresh is signalled after each reading.
	fresh chan struct{}

	mu sync.Mutex // guards the rest
	// newest is what was read last; saved are the paths of it that nobody has taken yet.
	newest  *source.Snapshot
	saved   map[string]bool
	polling string
	// since is when the present reading began; zero between readings.
	since time.Time
	// needed are the paths that a record names.
	needed map[string]bool
}

func newReader(cfg *Config, scanner *source.Scanner, watcher *source.Watcher) *reader {
	return &reader{
		scanner: scanner, watcher: watcher, now: cfg.now, pollEvery: cfg.pollEvery,
		fresh: make(chan struct{}, 1), saved: map[string]bool{},
	}
}

// run reads until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		due := r.read()
		select {
		case r.fresh <- struct{}{}:
		default:
		}
		if !r.wait(ctx, due) {
			return
		}
	}
}

// read reads once, and returns when to do so again though nothing changes; zero: never.
func (r *reader) read() time.Time {
	r.mu.Lock()
	r.since = r.now()
	needed := r.needed
	r.mu.Unlock()
	if needed != nil {
		r.scanner.Forget(needed)
	}
	snapshot := r.scanner.Scan()
	r.watcher.Settle()
	polling := r.watcher.Polling()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest, r.since, r.polling = snapshot, time.Time{}, polling
	for path := range snapshot.Saved {
		r.saved[path] = true
	}
	due := snapshot.Retry
	if polling != "" {
		if poll := r.now().Add(r.pollEvery); due.IsZero() || poll.Before(due) {
			due = poll
		}
	}
	return due
}

// wait returns after an event or when due has come, false when ctx has ended.
func (r *reader) wait(ctx context.Context, due time.Time) bool {
	var timer <-chan time.Time
	if !due.IsZero() {
		timer = time.After(max(due.Sub(r.now()), time.Millisecond))
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer:
		return true
	case <-r.watcher.Wake():
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(debounce):
	}
	select {
	case <-r.watcher.Wake():
	default:
	}
	return true
}

// take is the newest reading, nil if there is none yet, with all paths that were saved since
// the last take.
func (r *reader) take() (snapshot *source.Snapshot, saved map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	saved, r.saved = r.saved, map[string]bool{}
	return r.newest, saved
}

// keep puts back what a take has not made use of.
func (r *reader) keep(saved map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path := range saved {
		r.saved[path] = true
	}
}

// need says which paths a record names: the others are forgotten when they are gone.
func (r *reader) need(paths map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.needed = paths
}

func (r *reader) why() (polling string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.polling
}

// stuck is a fault if the present reading takes long.
func (r *reader) stuck() (problems.Problem, bool) {
	r.mu.Lock()
	since := r.since
	r.mu.Unlock()
	if since.IsZero() {
		return problems.Problem{}, false
	}
	took := r.now().Sub(since)
	if took < readWithin {
		return problems.Problem{}, false
	}
	return problems.Problem{File: r.scanner.Reading(), Message: fmt.Sprintf(
		"reading has taken more than %s and goes on; until it ends no change of any file is seen", took.Truncate(readWithin))}, true
}
