package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	gitignore "github.com/monochromegane/go-gitignore"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// root is one of the directories of the configuration.
type root struct {
	// shown is the path as the user typed it, abs the absolute one.
	shown, abs string
}

// found is a manifest file.
type found struct {
	// path is absolute, below its root, with symlinks as they are; shown is the
	// same path as the user would write it.
	path, shown string
	// info is of what the path leads to.
	info fs.FileInfo
}

// tree is the result of one listing.
type tree struct {
	files          []found
	kustomizations []found
	faults         []problems.Problem
	// notices are of what is left out on purpose.
	notices []problems.Problem
	// ignores are by the directory that they lie in.
	ignores map[string][]gitignore.IgnoreMatcher
	// inside are the real paths of the roots, and entries counts what was listed.
	inside  []string
	entries int
	// unread are absolute paths below which nothing is known at the moment.
	unread []string
}

// maxEntries is how many files and directories are listed at most.
const maxEntries = 100_000

// lister walks directories. Its zero value lists all that is a manifest.
type lister struct {
	// exclude holds absolute paths that are not looked into: the data directory
	// may lie inside a root.
	exclude []string
	// patterns leave out, in the syntax of .gitignore, what is below a root.
	patterns []string
	// watch is called for each directory before it is read, so that what is
	// created after the reading wakes; a non-empty name says that only this
	// entry of the directory matters.
	watch func(dir, name string)
	// lost, if not nil, says whether dir had a kustomization a moment ago. It is not
	// looked into then: while an editor replaces the file, or the directory is
	// being removed, its other files are still not manifests.
	lost func(dir string) bool
	// reading, if not nil, gets each directory before it is read.
	reading *atomic.Pointer[string]
}

// list walks roots.
func (l *lister) list(roots []root) *tree {
	t := &tree{ignores: map[string][]gitignore.IgnoreMatcher{}}
	seen := map[string]bool{}
	for _, r := range roots {
		if real, err := filepath.EvalSymlinks(r.abs); err == nil {
			t.inside = append(t.inside, real)
		}
	}
	for _, r := range roots {
		if r.abs == stdin {
			continue
		}
		if len(l.patterns) > 0 {
			t.ignore(r.abs, []byte(strings.Join(l.patterns, "\n")))
		}
		l.watch(filepath.Dir(r.abs), filepath.Base(r.abs))
		real, err := filepath.EvalSymlinks(r.abs)
		if err == nil {
			l.followLinks(r.abs)
			var info fs.FileInfo
			if info, err = os.Stat(real); err == nil && !info.IsDir() {
				l.file(t, found{path: r.abs, shown: r.shown, info: info}, real, seen)
				continue
			}
		}
		if err != nil {
			t.unread = append(t.unread, r.abs)
			t.faults = append(t.faults, problems.Problem{File: r.shown, Message: reason(err) + "; its objects stay as they are"})
			continue
		}
		l.dir(t, r.abs, r.shown, real, nil, seen)
	}
	return t
}

// dir lists the directory path, whose real path is real, below the real paths
// above.
func (l *lister) dir(t *tree, path, shown, real string, above []string, seen map[string]bool) {
	if slices.Contains(l.exclude, path) || slices.Contains(l.exclude, real) {
		return
	}
	if seen[real] {
		return // reached by another path already: each object once
	}
	seen[real] = true
	l.watch(path, "")
	if l.reading != nil {
		l.reading.Store(&shown)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return // removed since it was listed; the event of that wakes
		}
		t.unread = append(t.unread, path)
		t.faults = append(t.faults, problems.Problem{File: shown, Message: "read directory: " + reason(err) + "; its objects stay as they are"})
		return
	}
	for _, e := range entries {
		if e.Name() == IgnoreFile {
			if data, _, err := readLimited(filepath.Join(path, IgnoreFile)); err == nil {
				t.ignore(path, data)
			}
		}
	}
	if isChart(entries) {
		t.unread = append(t.unread, path)
		t.notices = append(t.notices, problems.Problem{File: shown, Message: "this is a Helm chart, which is not applied as it is: helm template " + shown + " | linkerd-lite up -"})
		return
	}
	for _, e := range entries {
		if isKustomization(e.Name()) && !t.ignored(filepath.Join(path, e.Name()), false) {
			file := filepath.Join(path, e.Name())
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				t.kustomizations = append(t.kustomizations, found{path: file, shown: filepath.Join(shown, e.Name()), info: info})
				return
			}
		}
	}
	if l.lost != nil && l.lost(path) {
		t.unread = append(t.unread, path)
		return
	}
	if t.entries += len(entries); t.entries > maxEntries {
		t.unread = append(t.unread, path)
		t.faults = append(t.faults, problems.Problem{File: shown, Message: fmt.Sprintf("the directories have more than %d files, and this one is left out: leave out what is no manifest, see .linkerdliteignore", maxEntries)})
		return
	}
	above = append(slices.Clip(above), real)
	for _, e := range entries {
		l.entry(t, e, path, shown, real, above, seen)
	}
}

func (l *lister) entry(t *tree, e fs.DirEntry, path, shown, real string, above []string, seen map[string]bool) {
	name := e.Name()
	if strings.HasPrefix(name, ".") {
		return
	}
	path, shown, real = filepath.Join(path, name), filepath.Join(shown, name), filepath.Join(real, name)
	link := e.Type()&fs.ModeSymlink != 0
	if !link && !e.IsDir() && !isManifest(name) {
		return
	}
	info, err := os.Stat(path)
	if t.ignored(path, err == nil && info.IsDir()) {
		return
	}
	if link {
		l.followLinks(path)
		if err == nil {
			real, err = filepath.EvalSymlinks(path)
		}
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		t.faults = append(t.faults, problems.Problem{File: shown, Message: "symlink loop: it leads to itself"})
	case errors.Is(err, fs.ErrNotExist):
		if link && isManifest(name) {
			// While a link is swapped it leads nowhere for a moment.
			t.unread = append(t.unread, path)
			t.faults = append(t.faults, problems.Problem{File: shown, Message: "this symlink leads nowhere"})
		}
	case err != nil:
		t.unread = append(t.unread, path)
		t.faults = append(t.faults, problems.Problem{File: shown, Message: reason(err)})
	case info.IsDir():
		if slices.Contains(above, real) {
			t.faults = append(t.faults, problems.Problem{File: shown, Message: fmt.Sprintf("symlink loop: it leads back to %s, not followed", real)})
			return
		}
		if link && !slices.ContainsFunc(t.inside, func(dir string) bool { return within(real, dir) }) {
			t.unread = append(t.unread, path)
			t.faults = append(t.faults, problems.Problem{File: shown, Message: fmt.Sprintf("it leads out of the directory, to %s, and is not followed: name that directory too if it is wanted", real)})
			return
		}
		l.dir(t, path, shown, real, above, seen)
	case isManifest(name):
		l.file(t, found{path: path, shown: shown, info: info}, real, seen)
	}
}

func (l *lister) file(t *tree, f found, real string, seen map[string]bool) {
	if seen[real] || slices.Contains(l.exclude, real) {
		return
	}
	seen[real] = true
	if !f.info.Mode().IsRegular() {
		t.unread = append(t.unread, f.path)
		t.faults = append(t.faults, problems.Problem{File: f.shown, Message: fmt.Sprintf("not a regular file (%s)", f.info.Mode().Type())})
		return
	}
	t.files = append(t.files, f)
}

// followLinks watches each place that the chain of symlinks at path goes
// through, as replacing any of them changes what is read.
func (l *lister) followLinks(path string) {
	for range 40 { // the kernel's own limit
		target, err := os.Readlink(path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
		l.watch(filepath.Dir(path), filepath.Base(path))
		if dir := filepath.Dir(path); dir != path {
			// A link such as x.yaml → ..data/x.yaml changes with ..data.
			if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				l.watch(filepath.Dir(dir), filepath.Base(dir))
			}
		}
	}
}

func isManifest(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// reason is an error of the file system without the path, which the fault has.
func reason(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
