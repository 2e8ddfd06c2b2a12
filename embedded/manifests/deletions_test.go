package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestDeletions(t *testing.T) {
	rulebook.Covers(t, "B59")
	both := docs(cm("a", "1"), cm("b", "1"))
	tests := []struct {
		name    string
		files   map[string]string
		change  func(b *bench)
		gone    []source.Key
		deletes []string
	}{
		{
			"one object of a file",
			map[string]string{"x.yaml": both},
			func(b *bench) { b.write("x.yaml", cm("a", "1")) },
			[]source.Key{configMap("b")}, []string{"DELETE ConfigMap ns/b"},
		},
		{
			"emptied file",
			map[string]string{"x.yaml": both, "y.yaml": cm("c", "1")},
			func(b *bench) { b.write("x.yaml", "# nothing\n") },
			[]source.Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"removed file",
			map[string]string{"x.yaml": both, "y.yaml": cm("c", "1")},
			func(b *bench) { must(b.t, os.Remove(b.path("x.yaml"))) },
			[]source.Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"removed directory",
			map[string]string{"d/e/x.yaml": both, "y.yaml": cm("c", "1")},
			func(b *bench) { must(b.t, os.RemoveAll(b.path("d"))) },
			[]source.Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"stop, remove, start again",
			map[string]string{"x.yaml": both, "y.yaml": cm("c", "1")},
			func(b *bench) {
				b.stop()
				must(b.t, os.Remove(b.path("x.yaml")))
				b.start()
			},
			[]source.Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"a kind that no file has any more",
			map[string]string{"x.yaml": cm("a", "1"), "r.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, namespace: ns}\n"},
			func(b *bench) {
				b.stop()
				must(b.t, os.Remove(b.path("r.yaml")))
				b.start()
			},
			[]source.Key{{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "r"}}, []string{"DELETE ClusterRole r"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for name, content := range test.files {
				b.write(name, content)
			}
			b.start()
			b.has(test.gone...)
			test.change(b)
			b.hasNot(test.gone...)
			b.inSync()
			deletes := b.api.requests("DELETE")
			slices.Sort(deletes)
			if diff := cmp.Diff(test.deletes, deletes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Neither a rename nor a move to another file sends anything.
func TestMoves(t *testing.T) {
	rulebook.Covers(t, "B59")
	tests := []struct {
		name   string
		change func(b *bench)
	}{
		{"rename", func(b *bench) { must(b.t, os.Rename(b.path("x.yaml"), b.path("y.yaml"))) }},
		{"rename the directory", func(b *bench) { must(b.t, os.Rename(b.path("d"), b.path("e"))) }},
		{"move, new place first", func(b *bench) {
			b.write("y.yaml", cm("b", "1"))
			b.write("x.yaml", cm("a", "1"))
		}},
		{"move, old place first", func(b *bench) {
			b.write("x.yaml", cm("a", "1"))
			b.write("y.yaml", cm("b", "1"))
		}},
		{"rename while stopped", func(b *bench) {
			b.stop()
			must(b.t, os.Rename(b.path("x.yaml"), b.path("y.yaml")))
			b.start()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("x.yaml", docs(cm("a", "1"), cm("b", "1")))
			b.write("d/z.yaml", cm("z", "1"))
			b.start()
			b.inSync()
			before := b.api.requests("")
			test.change(b)
			b.eventually("the file is known", func() bool {
				b.sync.mu.Lock()
				defer b.sync.mu.Unlock()
				for _, r := range b.sync.inv.Records {
					if _, err := os.Stat(r.File); err != nil {
						return false
					}
				}
				return b.sync.status.Load().InSync
			})
			// Longer than a prune would wait: this write comes through after it.
			b.write("later.yaml", cm("later", "1"))
			b.data("later", "1")
			must(t, os.Remove(b.path("later.yaml")))
			b.hasNot(configMap("later"))
			after := slices.DeleteFunc(b.api.requests(""), func(s string) bool { return strings.HasSuffix(s, "/later") })
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("requests: %s", diff)
			}
		})
	}
}

// What cannot be read replaces and deletes nothing.
func TestBrokenKeeps(t *testing.T) {
	rulebook.Covers(t, "B58, B59")
	tests := []struct {
		name   string
		change func(b *bench)
		prints string
	}{
		{"syntax error", func(b *bench) { b.write("x.yaml", docs(cm("a", "2"), "a: [1\nb: 2\n")) }, "x.yaml:10: did not find expected"},
		{"binary", func(b *bench) { b.write("x.yaml", "\x7fELF\x00\x01\xff") }, "x.yaml:1: this is binary data"},
		{"50 MB", func(b *bench) {
			f, err := os.Create(b.path("x.yaml"))
			must(b.t, err)
			must(b.t, f.Truncate(50e6))
			must(b.t, f.Close())
		}, "x.yaml: x.yaml has 50 MB, and 32 MB is the limit for one manifest: split it"},
		{"moved into a broken file", func(b *bench) {
			b.write("y.yaml", docs(cm("a", "1"), "{"))
			must(b.t, os.Remove(b.path("x.yaml")))
		}, "y.yaml:9: "},
		{"fifo", func(b *bench) {
			must(b.t, os.Remove(b.path("x.yaml")))
			must(b.t, syscall.Mkfifo(b.path("x.yaml"), 0o644))
		}, "x.yaml: not a regular file"},
		{"dangling link", func(b *bench) {
			must(b.t, os.Remove(b.path("x.yaml")))
			must(b.t, os.Symlink("nowhere", b.path("x.yaml")))
		}, "x.yaml: this symlink leads nowhere"},
		{"the root is gone", func(b *bench) { must(b.t, os.Rename(b.dir, b.dir+".away")) }, "no such file or directory; its objects stay as they are"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.dir = filepath.Join(b.dir, "dir")
			b.write("x.yaml", cm("a", "1"))
			b.write("other.yaml", cm("other", "1"))
			b.start()
			b.inSync()
			test.change(b)
			b.prints(test.prints)
			if b.sync.Status().InSync {
				t.Error("in sync")
			}
			b.eventually("a prune would be due", func() bool {
				b.sync.mu.Lock()
				defer b.sync.mu.Unlock()
				return len(b.sync.Status().Held) == 0 || !strings.Contains(b.sync.Status().Held[0].Why, "less than a second")
			})
			b.deletesNothing()
			b.data("a", "1")
		})
	}
}

// TestBrokenAfterRestart: there is no last good state in memory, but the inventory.
func TestBrokenAfterRestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	b.start()
	b.stop()
	b.write("x.yaml", "a: [")
	must(t, os.Chtimes(b.path("x.yaml"), time.Unix(1, 0), time.Unix(1, 0)))
	b.start()
	b.prints("x.yaml:1: did not find expected")
	b.deletesNothing()
}

// TestForeign: objects of directories that a run does not have stay, and do not disturb.
func TestForeign(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	b.start()
	b.stop()
	b.dir = t.TempDir()
	b.write("y.yaml", cm("b", "1"))
	b.start()
	b.prints("1 objects of directories that this run does not have are left alone")
	b.inSync()
	if b.api.get(configMap("a")) == nil {
		t.Error("deleted")
	}
}

// TestBase: what exists without the directory is restored, not deleted.
func TestBase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	parsed, faults, _ := source.Parse("base.yaml", []byte(docs(cm("built-in", "base"))), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	b.edit = func(cfg *Config) { cfg.Base = []plan.Base{{Object: parsed[0].Unstructured, FieldManager: "keeper"}} }
	b.write("other.yaml", cm("other", "1"))
	b.write("x.yaml", docs(cm("built-in", "mine"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n"))
	b.start()
	b.data("built-in", "mine")
	must(t, os.Remove(b.path("x.yaml")))
	b.data("built-in", "base")
	b.eventually("the namespace is released", func() bool {
		b.api.mu.Lock()
		defer b.api.mu.Unlock()
		_, has, _ := unstructured.NestedMap(b.api.objects[source.Key{Kind: "Namespace", Name: "default"}], "metadata", "labels")
		return !has
	})
	b.inSync()
	if diff := cmp.Diff([]string{"PATCH ConfigMap ns/built-in by keeper"}, append(b.api.requests("PATCH"), b.api.requests("DELETE")...)); diff != "" {
		t.Error(diff)
	}
}

// TestShared: what somebody else applied as well is not deleted.
func TestShared(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("other.yaml", cm("other", "1"))
	b.write("x.yaml", docs(cm("a", "1"), cm("b", "1")))
	b.start()
	b.api.share(configMap("a"), "somebody")
	must(t, os.Remove(b.path("x.yaml")))
	b.hasNot(configMap("b"))
	b.prints("ConfigMap ns/a is not deleted, as somebody applied it too")
	b.inSync()
	if b.api.get(configMap("a")) == nil {
		t.Error("deleted")
	}
}

// What was never applied from a file is not deleted with it: somebody else may have made it.
func TestRefusedIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("stays.yaml", cm("stays", "1"))
	b.write("applied.yaml", cm("applied", "1"))
	b.write("refused.yaml", cm("refused", "1"))
	b.api.objects[configMap("refused")] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "refused", "namespace": "ns"}}
	b.api.refuse = func(method string, key source.Key, _ map[string]any) *metav1.Status {
		if method == "PATCH" && key == configMap("refused") {
			return failed(422, metav1.StatusReasonInvalid, "no", nil)
		}
		return nil
	}
	b.start()
	b.prints("ConfigMap ns/refused: no")
	must(t, os.Remove(b.path("refused.yaml")))
	must(t, os.Remove(b.path("applied.yaml")))
	b.hasNot(configMap("applied"))
	b.inSync()
	b.has(configMap("refused"))
}
