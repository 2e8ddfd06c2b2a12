package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// SettleTime is how long a file must have been unchanged before what went
// from it is deleted.
const SettleTime = time.Second

// Place is what is known about a path that objects came from. It is a value.
type Place struct {
	// Shown is the path as the user would write it, if it belongs to a directory of this run.
	Shown string
	// Foreign says that the path belongs to no directory of this run, whose objects are
	// none of its business.
	Foreign bool
	// Held is why nothing from here may be deleted now, or empty.
	Held string
	// Empty is the directory or kustomization that the path belongs to if that has no
	// object now, as the user would write it.
	Empty string
	// Changed is when the path came into its present state, which may be that it is gone.
	Changed time.Time
}

// Place looks at a path that may be gone.
func (s *Snapshot) Place(path string) Place {
	place := Place{Changed: s.changed(path), Empty: s.emptyPlace(path)}
	i := slices.IndexFunc(s.roots, func(r root) bool { return within(path, r.abs) })
	if i < 0 {
		place.Foreign = true
		return place
	}
	place.Shown = filepath.Join(s.roots[i].shown, strings.TrimPrefix(path, s.roots[i].abs))
	switch {
	case s.isUnread(path):
		place.Held = "its file cannot be seen now"
	case s.isFilling(path):
		place.Held = "its directory was empty, and is still changing"
	}
	return place
}

// within reports whether path is dir, or lies below it.
func within(path, dir string) bool {
	return path == dir || dir == string(filepath.Separator) || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// isUnread reports whether path lies where nothing is known at the moment.
func (s *Snapshot) isUnread(path string) bool {
	return slices.ContainsFunc(s.unread, func(dir string) bool { return within(path, dir) })
}

func (s *Snapshot) changed(path string) time.Time {
	if source := s.byPath[path]; source != nil {
		return source.Changed
	}
	if at, ok := s.gone[path]; ok {
		return at
	}
	// Gone before this process began: its directory changed when it went.
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			return info.ModTime()
		}
		if dir == filepath.Dir(dir) {
			return time.Time{}
		}
	}
}
