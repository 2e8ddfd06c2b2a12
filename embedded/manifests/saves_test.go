package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// However a file is written, its final state is applied, and
// what it passes through deletes nothing.
func TestSaves(t *testing.T) {
	rulebook.Covers(t, "B58")
	tests := []struct {
		name string
		// save turns a.yaml, which has ConfigMap a with v 1, into one with v 2.
		save func(b *bench)
	}{
		{"in place", func(b *bench) { b.write("a.yaml", cm("a", "2")) }},
		{"rename over it", func(b *bench) {
			b.write("tmp", cm("a", "2"))
			must(b.t, os.Rename(b.path("tmp"), b.path("a.yaml")))
		}},
		{"vim: probe file, backup, new file, swap file", func(b *bench) {
			b.write(".a.yaml.swp", "\x00\x01")
			b.write("4913", "")
			must(b.t, os.Remove(b.path("4913")))
			must(b.t, os.Rename(b.path("a.yaml"), b.path("a.yaml~")))
			b.write("a.yaml", cm("a", "2"))
			must(b.t, os.Remove(b.path("a.yaml~")))
			must(b.t, os.Remove(b.path(".a.yaml.swp")))
		}},
		{"in two halves", func(b *bench) {
			f, err := os.Create(b.path("a.yaml"))
			must(b.t, err)
			text := cm("a", "2")
			half := strings.Index(text, "  name")
			_, err = f.WriteString(text[:half])
			must(b.t, err)
			b.prints("a.yaml:1: ConfigMap: metadata is missing")
			_, err = f.WriteString(text[half:])
			must(b.t, err)
			must(b.t, f.Close())
			b.prints("no errors left")
		}},
		{"emptied for a while", func(b *bench) {
			b.write("a.yaml", "")
			b.eventually("held", func() bool { return len(b.sync.Status().Held) == 1 })
			b.write("a.yaml", cm("a", "2"))
		}},
		{"same size and time of modification", func(b *bench) {
			info, err := os.Stat(b.path("a.yaml"))
			must(b.t, err)
			b.write("tmp", cm("a", "2"))
			must(b.t, os.Chtimes(b.path("tmp"), info.ModTime(), info.ModTime()))
			must(b.t, os.Rename(b.path("tmp"), b.path("a.yaml")))
		}},
		{"the whole directory is replaced", func(b *bench) {
			b.write("../new/a.yaml", cm("a", "2"))
			must(b.t, os.Rename(b.dir, b.dir+".old"))
			must(b.t, os.Rename(filepath.Join(b.dir, "../new"), b.dir))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.dir = filepath.Join(b.dir, "dir")
			b.write("a.yaml", cm("a", "1"))
			b.start()
			b.data("a", "1")
			test.save(b)
			b.data("a", "2")
			b.inSync()
			b.deletesNothing()
		})
	}
}

// The kubelet's way to swap a directory of files.
func TestProjectedVolume(t *testing.T) {
	rulebook.Covers(t, "B58")
	t.Parallel()
	b := newBench(t)
	b.write("..1/a.yaml", cm("a", "1"))
	b.write("..2/a.yaml", cm("a", "2"))
	must(t, os.Symlink("..1", b.path("..data")))
	must(t, os.Symlink("..data/a.yaml", b.path("a.yaml")))
	b.start()
	b.data("a", "1")
	must(t, os.Symlink("..2", b.path("..data_tmp")))
	must(t, os.Rename(b.path("..data_tmp"), b.path("..data")))
	must(t, os.RemoveAll(b.path("..1")))
	b.data("a", "2")
	b.write("..2/a.yaml", cm("a", "3"))
	b.data("a", "3")
	b.deletesNothing()
}

// Sub-directories that appear are watched at once.
func TestNewDirectories(t *testing.T) {
	rulebook.Covers(t, "B58")
	t.Parallel()
	b := newBench(t)
	b.start()
	for i := range 20 {
		name := fmt.Sprintf("c%d", i)
		b.write(fmt.Sprintf("d%d/e/f/a.yaml", i), cm(name, "1"))
		b.data(name, "1")
		b.write(fmt.Sprintf("d%d/e/f/a.yaml", i), cm(name, "2"))
		b.data(name, "2")
	}
}

// Links to files are followed, and links to directories inside the directory; what leads out of it is
// not walked, and nothing is deleted because of it.
func TestSymlinks(t *testing.T) {
	rulebook.Covers(t, "F4")
	t.Parallel()
	b := newBench(t)
	elsewhere := t.TempDir()
	must(t, os.WriteFile(filepath.Join(elsewhere, "real"), []byte(cm("file", "1")), 0o644))
	must(t, os.Mkdir(filepath.Join(elsewhere, "dir"), 0o755))
	must(t, os.WriteFile(filepath.Join(elsewhere, "dir", "x.yaml"), []byte(cm("dir", "1")), 0o644))
	must(t, os.Symlink(filepath.Join(elsewhere, "real"), b.path("file.yaml")))
	must(t, os.Symlink(filepath.Join(elsewhere, "dir"), b.path("dir")))
	must(t, os.Symlink("..", filepath.Join(elsewhere, "dir", "up")))
	must(t, os.Symlink("self.yaml", b.path("self.yaml")))
	must(t, os.Symlink(b.dir, b.path("again")))
	must(t, os.Symlink("inside", b.path("link")))
	b.write("inside/y.yaml", cm("inside", "1"))
	b.start()
	b.data("file", "1")
	b.data("inside", "1")
	b.prints("dir: it leads out of the directory, to " + filepath.Join(elsewhere, "dir") + ", and is not followed: name that directory too if it is wanted")
	b.prints("self.yaml: symlink loop: it leads to itself")
	b.prints("again: symlink loop: it leads back to ")
	must(t, os.WriteFile(filepath.Join(elsewhere, "real"), []byte(cm("file", "2")), 0o644))
	b.data("file", "2")
	if b.api.get(configMap("dir")) != nil {
		t.Error("applied from outside")
	}
	must(t, os.Rename(b.path("inside"), filepath.Join(elsewhere, "inside")))
	must(t, os.Remove(b.path("link")))
	must(t, os.Symlink(filepath.Join(elsewhere, "inside"), b.path("inside")))
	b.prints("inside: it leads out of the directory")
	b.deletesNothing()
}

// TestPolling: where inotify has reached its limits, changes are still found.
func TestPolling(t *testing.T) {
	for _, limit := range []struct {
		name   string
		notify func() (source.Notifier, error)
		prints string
	}{
		{"instances", func() (source.Notifier, error) { return nil, syscall.EMFILE }, "the limit of inotify instances is reached (fs.inotify.max_user_instances): looking for changes every 20ms instead"},
		{"watches", func() (source.Notifier, error) {
			n, err := source.NewNotifier()
			return fullNotifier{n}, err
		}, "the limit of inotify watches is reached (fs.inotify.max_user_watches): looking for changes every 20ms instead"},
	} {
		t.Run(limit.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.edit = func(cfg *Config) { cfg.notify, cfg.pollEvery = limit.notify, 20*time.Millisecond }
			b.write("x.yaml", cm("a", "1"))
			b.start()
			b.prints(limit.prints)
			b.write("x.yaml", cm("a", "2"))
			b.data("a", "2")
			b.write("new/y.yaml", cm("b", "1"))
			b.data("b", "1")
			if b.sync.Status().Polling == "" {
				t.Error("the status does not say so")
			}
		})
	}
}

type fullNotifier struct{ source.Notifier }

func (fullNotifier) Add(string) error { return syscall.ENOSPC }

// TestKustomization: a directory with one is a source, and its inputs are not.
func TestKustomization(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("app/base/kustomization.yaml", "resources: [a.yaml]\n")
	b.write("app/base/a.yaml", strings.ReplaceAll(cm("a", "1"), "  namespace: ns\n", ""))
	b.write("app/prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\nnamespace: ns\n")
	b.write("plain.yaml", cm("plain", "1"))
	b.start()
	b.data("prod-a", "1")
	b.data("plain", "1")
	if diff := cmp.Diff([]string{"APPLY ConfigMap ns/plain", "APPLY ConfigMap ns/prod-a"}, slices.Sorted(slices.Values(b.api.requests("")))); diff != "" {
		t.Error(diff)
	}
	b.write("app/base/a.yaml", strings.ReplaceAll(cm("a", "2"), "  namespace: ns\n", ""))
	b.data("prod-a", "2")
	b.write("app/prod/kustomization.yaml", "resources: [../base, https://example.com/x.yaml]\n")
	b.prints("app/prod/kustomization.yaml: kustomize: ")
	b.prints("remote resources are not fetched")
	b.write("app/prod/kustomization.yaml", "resources: [../base\n")
	b.prints("app/prod/kustomization.yaml")
	b.data("prod-a", "2")
	b.write("app/prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\nnamespace: ns\n")
	b.inSync()
	// While an editor replaces the file, or something removes the directory
	// piece by piece, what is left is no manifest.
	b.reads(func() { must(t, os.Rename(b.path("app/prod/kustomization.yaml"), b.path("app/prod/k"))) })
	must(t, os.Rename(b.path("app/prod/k"), b.path("app/prod/kustomization.yaml")))
	b.inSync()
	b.reads(func() { must(t, os.RemoveAll(b.path("app/prod"))) })
	must(t, os.RemoveAll(b.path("app")))
	b.hasNot(configMap("prod-a"))
	if diff := cmp.Diff([]string{"DELETE ConfigMap ns/prod-a"}, b.api.requests("DELETE")); diff != "" {
		t.Error(diff)
	}
}
