package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A directory without objects deletes nothing, at the start as while
// running, until it has some again.
func TestEmptied(t *testing.T) {
	rulebook.Covers(t, "F3")
	root := func(b *bench) string { return b.dir }
	tests := []struct {
		name  string
		files map[string]string
		dirs  []string // below the directory; none: itself
		empty func(b *bench)
		place func(b *bench) string
	}{
		{name: "its only file is removed", empty: func(b *bench) { must(b.t, os.Remove(b.path("x.yaml"))) }, place: root},
		{name: "its only file is emptied", empty: func(b *bench) { b.write("x.yaml", "") }, place: root},
		{name: "removed and made again", empty: func(b *bench) {
			must(b.t, os.RemoveAll(b.dir))
			must(b.t, os.Mkdir(b.dir, 0o755))
		}, place: root},
		{name: "moved away, and made again a while later", empty: func(b *bench) {
			must(b.t, os.Rename(b.dir, b.dir+".away"))
			b.prints("no such file or directory; its objects stay as they are")
			must(b.t, os.Mkdir(b.dir, 0o755))
		}, place: root},
		{name: "empty at the start", empty: func(b *bench) {
			b.stop()
			must(b.t, os.Rename(b.dir, b.dir+".away"))
			must(b.t, os.Mkdir(b.dir, 0o755))
			must(b.t, os.Chtimes(b.dir, time.Unix(1, 0), time.Unix(1, 0)))
			b.start()
		}, place: root},
		{name: "one of several directories", dirs: []string{"one", "two"}, files: map[string]string{"one/x.yaml": cm("a", "1"), "two/y.yaml": cm("b", "1")},
			empty: func(b *bench) { must(b.t, os.Remove(b.path("one/x.yaml"))) },
			place: func(b *bench) string { return b.path("one") }},
		{name: "a file as the directory", dirs: []string{"x.yaml", "two"}, files: map[string]string{"x.yaml": cm("a", "1"), "two/y.yaml": cm("b", "1")},
			empty: func(b *bench) { b.write("x.yaml", "# nothing\n") },
			place: func(b *bench) string { return b.path("x.yaml") }},
		{name: "a kustomization that builds nothing", files: map[string]string{
			"k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": cm("a", "1"), "other.yaml": cm("other", "1"),
		}, empty: func(b *bench) { b.write("k/a.yaml", "# nothing\n") },
			place: func(b *bench) string { return b.path("k/kustomization.yaml") }},
		{name: "nothing that is left can be parsed", files: map[string]string{"x.yaml": cm("a", "1"), "y.yaml": cm("b", "1")},
			empty: func(b *bench) {
				b.write("y.yaml", "b: [")
				must(b.t, os.Remove(b.path("x.yaml")))
			}, place: root},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.dir = filepath.Join(b.dir, "dir")
			b.edit = func(cfg *Config) {
				if test.dirs != nil {
					cfg.Dirs = nil
				}
				for _, dir := range test.dirs {
					cfg.Dirs = append(cfg.Dirs, b.path(dir))
				}
			}
			if test.files == nil {
				test.files = map[string]string{"x.yaml": cm("a", "1")}
			}
			for name, content := range test.files {
				b.write(name, content)
			}
			b.start()
			b.inSync()
			test.empty(b)
			b.prints("warning: " + test.place(b) + ": no objects are left here, and the ")
			// Longer than any deletion waits.
			emptied := time.Now()
			b.eventually("a deletion would be due", func() bool { return time.Since(emptied) > source.SettleTime+source.RefillTime })
			b.deletesNothing()
			status := b.sync.Status()
			if status.InSync || len(status.Notices) != 1 || len(status.Held) == 0 {
				t.Errorf("status is %+v", status)
			}
			if got := strings.Count(b.out.String(), "warning: "); got != 1 {
				t.Errorf("warned %d times", got)
			}
		})
	}
}

// What a directory has again is compared with what it had,
// once no more comes.
func TestEmptiedComesBack(t *testing.T) {
	rulebook.Covers(t, "F3")
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	b.write("y.yaml", cm("b", "1"))
	b.write("z.yaml", cm("c", "1"))
	b.start()
	b.inSync()
	for _, name := range []string{"x.yaml", "y.yaml", "z.yaml"} {
		must(t, os.Remove(b.path(name)))
	}
	b.prints("no objects are left here, and the 3 that came from here stay as they are")
	emptied := time.Now()
	b.eventually("files are gone for long", func() bool { return time.Since(emptied) > source.SettleTime })
	b.write("x.yaml", cm("a", "1"))
	b.eventually("it fills", func() bool { return len(b.sync.Status().Held) == 2 })
	b.write("y.yaml", cm("b", "2"))
	b.data("b", "2")
	b.hasNot(configMap("c"))
	b.inSync()
	if deletes := b.api.requests("DELETE"); len(deletes) != 1 {
		t.Errorf("deleted %v", deletes)
	}
}

// The user's word for it.
func TestPruneEmpty(t *testing.T) {
	rulebook.Covers(t, "F3")
	t.Parallel()
	b := newBench(t)
	b.edit = func(cfg *Config) { cfg.PruneEmpty = true }
	b.write("x.yaml", cm("a", "1"))
	b.start()
	must(t, os.Remove(b.path("x.yaml")))
	b.hasNot(configMap("a"))
	b.inSync()
}

// TestEmptyFromTheStart: a directory that never had an object is nothing to warn of.
func TestEmptyFromTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start()
	b.inSync()
	if strings.Contains(b.out.String(), "warning") {
		t.Errorf("printed %s", b.out)
	}
}
