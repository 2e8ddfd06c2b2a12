package source

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Notifier is a source of file system events, so that tests can have one
// whose limits are reached.
type Notifier interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
}

type inotify struct{ watcher *fsnotify.Watcher }

func (n inotify) Add(dir string) error          { return n.watcher.Add(dir) }
func (n inotify) Remove(dir string) error       { return n.watcher.Remove(dir) }
func (n inotify) Close() error                  { return n.watcher.Close() }
func (n inotify) Events() <-chan fsnotify.Event { return n.watcher.Events }
func (n inotify) Errors() <-chan error          { return n.watcher.Errors }

// NewNotifier is that of the system.
func NewNotifier() (Notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return inotify{w}, nil
}

// Watcher turns events below the directories of the last scan into wakes.
//
// The scan adds each directory before it reads it, so that what is written after the
// reading is noticed. Directories are added again by each scan: one that was
// replaced under the same path has lost its watch.
type Watcher struct {
	log    *slog.Logger
	source Notifier // nil: polling
	wake   chan struct{}
	// names are the entries that matter by directory; nil: all.
	names map[string]map[string]bool
	next  map[string]map[string]bool
	mu    sync.Mutex // guards names
	// polling is why events cannot be relied on, or empty.
	polling string
}

// NewWatcher makes one that has no directories yet.
func NewWatcher(create func() (Notifier, error), log *slog.Logger) *Watcher {
	w := &Watcher{log: log, wake: make(chan struct{}, 1), names: map[string]map[string]bool{}, next: map[string]map[string]bool{}}
	source, err := create()
	if err != nil {
		w.polling = limit(err)
		return w
	}
	w.source = source
	return w
}

// limit puts the errors of reached limits into words.
func limit(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the limit of inotify watches is reached (fs.inotify.max_user_watches)"
	case errors.Is(err, syscall.EMFILE):
		return "the limit of inotify instances is reached (fs.inotify.max_user_instances)"
	}
	return "file system events do not work: " + err.Error()
}

// Add is for Config.Watch.
func (w *Watcher) Add(dir, name string) {
	names, known := w.next[dir]
	if known && (names == nil || names[name]) {
		return
	}
	switch {
	case name == "":
		w.next[dir] = nil
	case names == nil:
		w.next[dir] = map[string]bool{name: true}
	default:
		names[name] = true
	}
	w.allow(dir, name)
	if w.source == nil || known {
		return
	}
	err := w.source.Add(dir)
	if err != nil && w.polling == "" && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EACCES) {
		w.polling = limit(err)
	}
}

// allow lets events of dir through at once, before the scan is over.
func (w *Watcher) allow(dir, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names, known := w.names[dir]
	switch {
	case name == "":
		w.names[dir] = nil
	case !known:
		w.names[dir] = map[string]bool{name: true}
	case names != nil:
		names[name] = true
	}
}

// Settle ends a scan: directories that it did not add are let go.
func (w *Watcher) Settle() {
	w.mu.Lock()
	var stale []string
	for dir := range w.names {
		if _, still := w.next[dir]; !still {
			stale = append(stale, dir)
		}
	}
	w.names, w.next = w.next, map[string]map[string]bool{}
	w.mu.Unlock()
	for _, dir := range stale {
		if w.source == nil {
			continue
		}
		if err := w.source.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
			w.log.Debug("stop watching directory", "dir", dir, "error", err)
		}
	}
}

func (w *Watcher) matters(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, itself := w.names[path]; itself {
		return true
	}
	names, known := w.names[filepath.Dir(path)]
	return known && (names == nil || names[filepath.Base(path)])
}

// Run forwards events until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	if w.source == nil {
		<-ctx.Done()
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return w.source.Close()
		case event, ok := <-w.source.Events():
			if !ok {
				return nil
			}
			if w.matters(event.Name) {
				w.poke()
			}
		case err, ok := <-w.source.Errors():
			if !ok {
				return nil
			}
			// Most likely an overflow: events were lost, so look at everything.
			w.log.Debug("file system events", "error", err)
			w.poke()
		}
	}
}

// Wake is signalled after an event.
func (w *Watcher) Wake() <-chan struct{} { return w.wake }

// Polling is why events cannot be relied on, or empty. It belongs to whoever scans.
func (w *Watcher) Polling() string { return w.polling }

func (w *Watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
