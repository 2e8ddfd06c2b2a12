package source

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// clockGrain is how young a file may be for a second write of the same size to
// leave the same time stamp. Younger files are read again.
const clockGrain = time.Second

// Snapshot is the state of all directories at one time. It is an immutable value.
type Snapshot struct {
	Sources []*Source
	byPath  map[string]*Source
	// Faults are of directories and links; those of sources are theirs.
	Faults []problems.Problem
	// Notices are of what is left out on purpose.
	Notices []problems.Problem
	unread  []string
	roots   []root
	// empty are roots and files of kustomizations without any object, and filling those roots
	// that had none a moment ago and are still changing.
	empty, filling []root
	// Saved are the paths of sources that were written since the last scan, with
	// or without a change.
	Saved map[string]bool
	gone  map[string]time.Time
	// Retry is when to scan again though nothing changes; zero: never.
	Retry time.Time
}

// file is what is remembered about a path between scans.
type file struct {
	source *Source
	info   fs.FileInfo
	readAt time.Time
	sum    [sha256.Size]byte
	hasSum bool
	docs   Documents
	// inputs of a kustomization, nil for those that are not there.
	inputs        map[string]fs.FileInfo
	refs          references
	kustomization bool
	// lastGone is when the path was first missed; zero while it is there.
	lastGone time.Time
	// absorbed is since when the kustomization is there as a part of another
	// one, and no source; zero while it is not.
	absorbed time.Time
}

// Scanner reads directories again and again, and only what changed.
type Scanner struct {
	roots      []root
	lister     lister
	now        func() time.Time
	files      map[string]*file
	first      bool
	retry      time.Time
	pruneEmpty bool
	stdin      io.Reader
	piped      *Source // what stdin had
	// reading is the path that is being read, for others to see.
	reading atomic.Pointer[string]
	// refilled is when roots that were empty, by path, changed last.
	refilled map[string]time.Time
}

// Config says what a Scanner reads.
type Config struct {
	// Dirs are directories or single files, as the user named them.
	Dirs []string
	// Exclude are paths inside Dirs that hold no manifests.
	Exclude []string
	// PruneEmpty says that a directory or kustomization without objects is meant.
	PruneEmpty bool
	// Watch is called for each directory before it is read, so that what is created after
	// the reading is noticed; a non-empty name says that only this entry of it matters.
	Watch func(dir, name string)
	Now   func() time.Time
	// Patterns leave out, in the syntax of .gitignore, what lies below Dirs.
	Patterns []string
	// Stdin is read, once, where Dirs has "-".
	Stdin io.Reader
}

// NewScanner makes a Scanner; it does not read.
func NewScanner(cfg Config) (*Scanner, error) {
	roots, err := absolute(cfg.Dirs)
	if err != nil {
		return nil, err
	}
	excluded, err := absolute(cfg.Exclude)
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(excluded))
	for _, e := range excluded {
		paths = append(paths, e.abs)
	}
	s := &Scanner{
		roots:  roots,
		lister: lister{exclude: paths, patterns: cfg.Patterns, watch: cfg.Watch},
		now:    cfg.Now,
		files:  map[string]*file{},
		first:  true,

		pruneEmpty: cfg.PruneEmpty,
		refilled:   map[string]time.Time{},
	}
	if slices.Contains(cfg.Dirs, stdin) {
		s.stdin = cfg.Stdin
	}
	s.lister.lost, s.lister.reading = s.lostKustomization, &s.reading
	return s, nil
}

// Reading is what is being read, as the user would write it. It may be asked while a scan runs.
func (s *Scanner) Reading() string {
	if path := s.reading.Load(); path != nil {
		return *path
	}
	return ""
}

// First reports whether nothing has been read yet.
func (s *Scanner) First() bool { return s.first }

// Source is the one at an absolute path, nil if there is none.
func (s *Snapshot) Source(path string) *Source { return s.byPath[path] }

// lostKustomization reports whether dir lost its kustomization less than the
// settle time ago.
func (s *Scanner) lostKustomization(dir string) bool {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if known := s.files[filepath.Join(dir, name)]; known != nil && known.kustomization && s.justGone(known) {
			return true
		}
	}
	return false
}

// justGone notes that a path is missing, and reports whether that is new.
func (s *Scanner) justGone(known *file) bool {
	now := s.now()
	if known.lastGone.IsZero() {
		known.lastGone = now
	}
	settled := known.lastGone.Add(SettleTime)
	if !now.Before(settled) {
		return false
	}
	s.retryAt(settled)
	return true
}

func (s *Scanner) retryAt(t time.Time) {
	if s.retry.IsZero() || t.Before(s.retry) {
		s.retry = t
	}
}

// Scan lists the roots and reads what changed.
func (s *Scanner) Scan() *Snapshot {
	s.retry = time.Time{}
	t := s.lister.list(s.roots)
	result := &Snapshot{
		byPath: make(map[string]*Source, len(t.files)),
		Faults: t.faults,
		unread: t.unread,
		roots:  s.roots,
		Saved:  map[string]bool{},
		gone:   map[string]time.Time{},
	}
	add := func(f found, saved bool) {
		source := s.files[f.path].source
		result.Sources = append(result.Sources, source)
		result.byPath[f.path] = source
		if saved {
			result.Saved[f.path] = true
		}
	}
	for _, f := range t.files {
		add(f, s.readFile(f))
	}
	if source, saved := s.readStdin(); source != nil {
		result.Sources, result.byPath[stdin] = append(result.Sources, source), source
		if saved {
			result.Saved[stdin] = true
		}
	}
	used := s.used(t)
	parts := map[string]bool{}
	for _, f := range t.kustomizations {
		real, err := filepath.EvalSymlinks(filepath.Dir(f.path))
		if err == nil && used[real] || s.files[f.path].refs.component {
			// Part of another one, which is built; alone it may not even be valid.
			s.files[f.path].source = nil
			parts[f.path] = true
			continue
		}
		add(f, s.buildKustomization(f))
	}
	now := s.now()
	for path, known := range s.files {
		if parts[path] {
			if known.absorbed.IsZero() {
				known.absorbed = now
			}
			result.gone[path] = known.absorbed
			continue
		}
		known.absorbed = time.Time{}
		if result.byPath[path] != nil {
			known.lastGone = time.Time{}
			continue
		}
		if result.isUnread(path) {
			// Its last good state stands while it cannot be seen.
			if known.source != nil {
				result.Sources = append(result.Sources, known.source)
				result.byPath[path] = known.source
			}
			continue
		}
		if known.lastGone.IsZero() {
			known.lastGone = now
		}
		result.gone[path] = known.lastGone
		known.source, known.docs, known.hasSum, known.info = nil, nil, false, nil
	}
	slices.SortFunc(result.Sources, func(a, b *Source) int { return strings.Compare(a.Path, b.Path) })
	result.Notices = slices.Concat(t.notices, aliens(result.Sources))
	if !s.pruneEmpty {
		s.findEmpty(result)
	}
	s.first = false
	result.Retry = s.retry
	return result
}

// used are the real paths of directories that a kustomization refers to, also
// one that went a moment ago: what it used may go next.
func (s *Scanner) used(t *tree) map[string]bool {
	used := map[string]bool{}
	there := map[string]bool{}
	for _, f := range t.kustomizations {
		there[f.path] = true
		for _, dir := range s.readReferences(f).dirs {
			used[dir] = true
		}
	}
	for path, known := range s.files {
		if !known.kustomization || there[path] || !s.justGone(known) {
			continue
		}
		for _, dir := range known.refs.dirs {
			used[dir] = true
		}
	}
	return used
}

// Forget drops the memory of paths that no record names any more.
func (s *Scanner) Forget(needed map[string]bool) {
	for path, known := range s.files {
		if !known.lastGone.IsZero() && !needed[path] && !s.now().Before(known.lastGone.Add(SettleTime)) {
			delete(s.files, path)
		}
	}
}

func (s *Scanner) known(path string) *file {
	known := s.files[path]
	if known == nil {
		known = &file{}
		s.files[path] = known
	}
	return known
}

// changedAt is the time of a change noticed now.
func (s *Scanner) changedAt(modified time.Time) time.Time {
	now := s.now()
	if s.first && modified.Before(now) {
		return modified
	}
	return now
}

// readFile brings the source of f up to date and reports whether it was
// written.
func (s *Scanner) readFile(f found) (saved bool) {
	known := s.known(f.path)
	if known.source != nil && same(known.info, f.info) && known.readAt.Sub(known.info.ModTime()) > clockGrain {
		return false
	}
	s.reading.Store(&f.shown)
	readAt := s.now()
	data, info, err := readLimited(f.path)
	var faults []problems.Problem
	if err != nil {
		faults = []problems.Problem{{File: f.shown, Message: reason(err)}}
		info, data = f.info, []byte(err.Error())
	}
	sum := sha256.Sum256(data)
	touched := known.info != nil && !same(known.info, info)
	known.info, known.readAt = info, readAt
	if known.source != nil && known.hasSum && known.sum == sum {
		return touched
	}
	known.sum, known.hasSum = sum, true
	source := &Source{Path: f.path, Shown: f.shown, Changed: s.changedAt(info.ModTime()), sum: sum}
	if err == nil {
		source.Objects, faults, known.docs = Parse(f.shown, data, known.docs)
	}
	if len(faults) > 0 {
		source.Faults = faults
		if err == nil {
			source.broken = data
		}
		if known.source != nil {
			source.Objects = known.source.Objects
		}
		source.Alien = len(source.Objects) == 0 && isAlien(faults)
	}
	known.source = source
	return true
}

func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func tooBig(path string, size int64) string {
	return fmt.Sprintf("%s has %d MB, and %d MB is the limit for one manifest: split it", filepath.Base(path), size/1e6, maxFile>>20)
}

// readLimited reads a whole file, and does not wait on what is no file.
func readLimited(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxFile {
		return nil, nil, fmt.Errorf("%s", tooBig(path, info.Size()))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxFile {
		return nil, nil, fmt.Errorf("%s", tooBig(path, int64(len(data))))
	}
	return data, info, nil
}

// readReferences keeps those of the last readable state of the kustomization
// file.
func (s *Scanner) readReferences(f found) references {
	known := s.known(f.path)
	known.kustomization, known.lastGone = true, time.Time{}
	data, _, err := readLimited(f.path)
	if err != nil {
		return known.refs
	}
	if refs, err := readReferences(f.path, data); err == nil {
		known.refs = refs
	}
	return known.refs
}

// buildKustomization brings the source of f up to date and reports whether
// any of its inputs was written.
func (s *Scanner) buildKustomization(f found) (saved bool) {
	known := s.known(f.path)
	if known.source != nil && s.inputsUnchanged(known) {
		return false
	}
	s.reading.Store(&f.shown)
	readAt := s.now()
	objects, inputs, err := build(f.path)
	known.readAt = readAt
	known.inputs = map[string]fs.FileInfo{}
	newest := f.info.ModTime()
	for _, path := range inputs {
		info, err := os.Stat(path)
		if err != nil {
			known.inputs[path] = nil
			s.lister.watch(filepath.Dir(path), filepath.Base(path))
			continue
		}
		known.inputs[path] = info
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		s.watchInput(path, info)
		s.lister.followLinks(path)
	}
	source := &Source{Path: f.path, Shown: f.shown, Objects: objects, Changed: s.changedAt(newest)}
	if err != nil {
		source.Faults = []problems.Problem{buildFault(f.shown, err)}
		if known.source != nil {
			source.Objects = known.source.Objects
		}
		for path, info := range known.inputs {
			if info != nil && info.Mode().IsRegular() && info.Size() <= maxFile {
				if data, err := os.ReadFile(path); err == nil {
					source.broken = append(source.broken, data...)
				}
			}
		}
	}
	if known.source != nil && sameContent(known.source, source) {
		return true
	}
	known.source = source
	return true
}

// watchInput watches a directory, or that of a file.
func (s *Scanner) watchInput(path string, info fs.FileInfo) {
	if !info.IsDir() {
		path = filepath.Dir(path)
	}
	s.lister.watch(path, "")
}

func (s *Scanner) inputsUnchanged(known *file) bool {
	for path, before := range known.inputs {
		if before != nil && !before.IsDir() && known.readAt.Sub(before.ModTime()) <= clockGrain {
			return false
		}
		now, err := os.Stat(path)
		if err != nil {
			if before != nil {
				return false
			}
			continue
		}
		if before == nil || !same(before, now) {
			return false
		}
		s.watchInput(path, now)
	}
	return true
}
