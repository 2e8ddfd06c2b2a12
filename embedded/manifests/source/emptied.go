package source

import (
	"path/filepath"
	"slices"
	"time"
)

// RefillTime is how long a directory that had no objects must have been unchanged
// before anything from it is deleted: a checkout and a copy bring one file after
// the other.
const RefillTime = 2 * time.Second

// findEmpty notes which places have no object in this scan. Files with faults do not
// count: what they last had is no sign that the directory is whole.
func (s *Scanner) findEmpty(result *Snapshot) {
	for _, source := range result.Sources {
		if isKustomization(filepath.Base(source.Path)) && len(source.Objects) == 0 && len(source.Faults) == 0 {
			result.empty = append(result.empty, root{shown: source.Shown, abs: source.Path})
		}
	}
	now := s.now()
	for _, r := range s.roots {
		filled, saved := false, false
		for _, source := range result.Sources {
			if !within(source.Path, r.abs) || result.isUnread(source.Path) {
				continue
			}
			filled = filled || len(source.Objects) > 0 && len(source.Faults) == 0
			saved = saved || result.Saved[source.Path]
		}
		last, wasEmpty := s.refilled[r.abs]
		switch {
		case !filled:
			s.refilled[r.abs] = now
			if !result.isUnread(r.abs) { // which is said already
				result.empty = append(result.empty, r)
			}
			continue
		case !wasEmpty:
			continue
		case saved:
			last = now
			s.refilled[r.abs] = now
		}
		due := last.Add(RefillTime)
		if !now.Before(due) {
			delete(s.refilled, r.abs)
			continue
		}
		result.filling = append(result.filling, r)
		s.retryAt(due)
	}
}

// emptyPlace is the place without any object that path belongs to, as the user would
// write it, or empty.
func (s *Snapshot) emptyPlace(path string) string {
	i := slices.IndexFunc(s.empty, func(r root) bool { return within(path, r.abs) })
	if i < 0 {
		return ""
	}
	return s.empty[i].shown
}

// isFilling reports whether path belongs to a root that had no object a moment ago.
func (s *Snapshot) isFilling(path string) bool {
	return slices.ContainsFunc(s.filling, func(r root) bool { return within(path, r.abs) })
}
