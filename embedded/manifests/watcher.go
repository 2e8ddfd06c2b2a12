package manifests

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// notifier is a source of file system events, so that tests can have one
// whose limits are reached.
type notifier interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	events() <-chan fsnotify.Event
	errors() <-chan error
}

type inotify struct{ *fsnotify.Watcher }

func (n inotify) events() <-chan fsnotify.Event { return n.Events }
func (n inotify) errors() <-chan error          { return n.Errors }

func newNotifier() (notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return inotify{w}, nil
}

// watcher turns events below the directories of the last scan into wakes.
//
// The scan adds each directory before it reads it, so that what is written after the
// reading is noticed. Directories are added again by each scan: one that was
// replaced under the same path has lost its watch.
type watcher struct {
	log    *slog.Logger
	source notifier // nil: polling
	wake   chan struct{}
	// names are the entries that matter by directory; nil: all.
	names map[string]map[string]bool
	next  map[string]map[string]bool
	mu    sync.Mutex // guards names
	// polling is why events cannot be relied on, or empty.
	polling string
}

func newWatcher(create func() (notifier, error), log *slog.Logger) *watcher {
	w := &watcher{log: log, wake: make(chan struct{}, 1), names: map[string]map[string]bool{}, next: map[string]map[string]bool{}}
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

// add is called by a scan for each directory, see lister.watch.
func (w *watcher) add(dir, name string) {
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
func (w *watcher) allow(dir, name string) {
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

// settle ends a scan: directories that it did not add are let go.
func (w *watcher) settle() {
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

func (w *watcher) matters(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, itself := w.names[path]; itself {
		return true
	}
	names, known := w.names[filepath.Dir(path)]
	return known && (names == nil || names[filepath.Base(path)])
}

// run forwards events until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	if w.source == nil {
		<-ctx.Done()
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return w.source.Close()
		case event, ok := <-w.source.events():
			if !ok {
				return nil
			}
			if w.matters(event.Name) {
				w.poke()
			}
		case err, ok := <-w.source.errors():
			if !ok {
				return nil
			}
			// Most likely an overflow: events were lost, so look at everything.
			w.log.Debug("file system events", "error", err)
			w.poke()
		}
	}
}

func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
