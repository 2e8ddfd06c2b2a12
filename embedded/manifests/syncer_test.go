package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// output collects what is printed.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// bench is a Syncer on a directory and a fake API server.
type bench struct {
	t     *testing.T
	api   *fakeAPI
	dir   string
	state string
	out   *output
	sync  *Syncer
	edit  func(*Config)
	stop  func()
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, api: newFakeAPI(t), dir: t.TempDir(), state: t.TempDir(), out: &output{}}
}

func (b *bench) config() Config {
	cfg := Config{Dirs: []string{b.dir}, RESTConfig: b.api.config(), StateDir: b.state, Out: b.out, driftEvery: time.Hour}
	if b.edit != nil {
		b.edit(&cfg)
	}
	return cfg
}

// start runs until stop or the end of the test, and returns when ready.
func (b *bench) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.sync = New(b.config())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := b.sync.Run(ctx, func() { close(ready) }); err != nil {
			b.t.Errorf("Run: %v", err)
		}
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	b.t.Cleanup(b.stop)
	select {
	case <-ready:
	case <-done:
		b.t.Fatal("Run ended")
	case <-time.After(20 * time.Second):
		b.t.Fatalf("not ready; printed:\n%s", b.out)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) eventually(what string, is func() bool) {
	b.t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("never: %s\nprinted:\n%s\nrequests:\n%s\nstatus: %+v", what, b.out, strings.Join(b.api.requests(""), "\n"), b.sync.Status())
		}
	}
}

func (b *bench) has(keys ...Key) {
	b.t.Helper()
	for _, key := range keys {
		b.eventually("there is "+key.String(), func() bool { return b.api.get(key) != nil })
	}
}

func (b *bench) hasNot(keys ...Key) {
	b.t.Helper()
	for _, key := range keys {
		b.eventually("there is no "+key.String(), func() bool { return b.api.get(key) == nil })
	}
}

func (b *bench) prints(text string) {
	b.t.Helper()
	b.eventually("prints "+text, func() bool { return strings.Contains(b.out.String(), text) })
}

func (b *bench) inSync() {
	b.t.Helper()
	b.eventually("in sync", func() bool { return b.sync.Status().InSync })
}

// data waits until the ConfigMap ns/name has v in its data.
func (b *bench) data(name, v string) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("ConfigMap %s is %q", name, v), func() bool {
		b.api.mu.Lock()
		defer b.api.mu.Unlock()
		got, _, _ := unstructured.NestedString(b.api.objects[configMap(name)], "data", "v")
		return got == v
	})
}

func configMap(name string) Key { return Key{Kind: "ConfigMap", Namespace: "ns", Name: name} }

func cm(name, v string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: ns\ndata:\n  v: %q\n", name, v)
}

func docs(parts ...string) string { return strings.Join(parts, "---\n") }

// TestSaves is B58: however a file is written, its final state is applied, and
// what it passes through deletes nothing.
func TestSaves(t *testing.T) {
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
			if deletes := b.api.requests("DELETE"); len(deletes) > 0 {
				t.Errorf("deleted: %v", deletes)
			}
		})
	}
}

// TestProjectedVolume is B58: the kubelet's way to swap a directory of files.
func TestProjectedVolume(t *testing.T) {
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
	if deletes := b.api.requests("DELETE"); len(deletes) > 0 {
		t.Errorf("deleted: %v", deletes)
	}
}

// TestNewDirectories is B58: sub-directories that appear are watched at once.
func TestNewDirectories(t *testing.T) {
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

// TestSymlinks covers links out of the directory, and loops.
func TestSymlinks(t *testing.T) {
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
	b.start()
	b.data("file", "1")
	b.data("dir", "1")
	b.prints("self.yaml: symlink loop: it leads to itself")
	b.prints("again: symlink loop: it leads back to ")
	must(t, os.WriteFile(filepath.Join(elsewhere, "real"), []byte(cm("file", "2")), 0o644))
	must(t, os.WriteFile(filepath.Join(elsewhere, "dir", "x.yaml"), []byte(cm("dir", "2")), 0o644))
	b.data("file", "2")
	b.data("dir", "2")
}

// TestDeletions is B59.
func TestDeletions(t *testing.T) {
	both := docs(cm("a", "1"), cm("b", "1"))
	tests := []struct {
		name    string
		files   map[string]string
		change  func(b *bench)
		gone    []Key
		deletes []string
	}{
		{
			"one object of a file",
			map[string]string{"x.yaml": both},
			func(b *bench) { b.write("x.yaml", cm("a", "1")) },
			[]Key{configMap("b")}, []string{"DELETE ConfigMap ns/b"},
		},
		{
			"emptied file",
			map[string]string{"x.yaml": both},
			func(b *bench) { b.write("x.yaml", "# nothing\n") },
			[]Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"removed file",
			map[string]string{"x.yaml": both, "y.yaml": cm("c", "1")},
			func(b *bench) { must(b.t, os.Remove(b.path("x.yaml"))) },
			[]Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"removed directory",
			map[string]string{"d/e/x.yaml": both},
			func(b *bench) { must(b.t, os.RemoveAll(b.path("d"))) },
			[]Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"stop, remove, start again",
			map[string]string{"x.yaml": both, "y.yaml": cm("c", "1")},
			func(b *bench) {
				b.stop()
				must(b.t, os.Remove(b.path("x.yaml")))
				b.start()
			},
			[]Key{configMap("a"), configMap("b")}, []string{"DELETE ConfigMap ns/a", "DELETE ConfigMap ns/b"},
		},
		{
			"a kind that no file has any more",
			map[string]string{"x.yaml": cm("a", "1"), "r.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, namespace: ns}\n"},
			func(b *bench) {
				b.stop()
				must(b.t, os.Remove(b.path("r.yaml")))
				b.start()
			},
			[]Key{{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "r"}}, []string{"DELETE ClusterRole r"},
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

// TestMoves is B59: neither a rename nor a move to another file sends anything.
func TestMoves(t *testing.T) {
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
				for _, r := range b.sync.inv.records {
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

// TestBrokenKeeps is B58 and B59: what cannot be read replaces and deletes nothing.
func TestBrokenKeeps(t *testing.T) {
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
			if deletes := b.api.requests("DELETE"); len(deletes) > 0 {
				t.Errorf("deleted: %v", deletes)
			}
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
	if deletes := b.api.requests("DELETE"); len(deletes) > 0 {
		t.Errorf("deleted: %v", deletes)
	}
}

// TestOrder is B61.
func TestOrder(t *testing.T) {
	route := "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r, namespace: ns}\n"
	key := Key{Group: "example.com", Kind: "Route", Namespace: "ns", Name: "r"}
	definition := crd("example.com", "Route", "routes")
	tests := []struct {
		name   string
		files  map[string]string
		change func(b *bench)
		want   Key
	}{
		{"the CRD sorts last", map[string]string{"00-route.yaml": route, "99-crd.yaml": definition}, nil, key},
		{"one file, wrong order", map[string]string{"x.yaml": docs(route, definition)}, nil, key},
		{"the namespace sorts last", map[string]string{
			"a.yaml": strings.ReplaceAll(cm("a", "1"), "namespace: ns", "namespace: late"),
			"z.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n",
		}, nil, Key{Kind: "ConfigMap", Namespace: "late", Name: "a"}},
		{"the CRD is dropped in later", map[string]string{"route.yaml": route},
			func(b *bench) { b.write("crd.yaml", definition) }, key},
		{"the kind appears by other means", map[string]string{"route.yaml": route},
			func(b *bench) {
				b.prints("the API server has no kind Route in example.com/v1")
				b.api.mu.Lock()
				defer b.api.mu.Unlock()
				b.api.serve("example.com/v1", "Route", "routes", true, true)
			}, key},
		{"the namespace appears by other means", map[string]string{"a.yaml": strings.ReplaceAll(cm("a", "1"), "namespace: ns", "namespace: late")},
			func(b *bench) {
				b.prints(`a.yaml:1: ConfigMap late/a: namespace "late" does not exist`)
				b.api.mu.Lock()
				defer b.api.mu.Unlock()
				b.api.objects[Key{Kind: "Namespace", Name: "late"}] = map[string]any{}
			}, Key{Kind: "ConfigMap", Namespace: "late", Name: "a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.api.crdDelay = 300 * time.Millisecond
			for name, content := range test.files {
				b.write(name, content)
			}
			b.start()
			if test.change != nil {
				test.change(b)
				b.has(test.want)
			}
			// Without a change, ready says that all is there.
			if b.api.get(test.want) == nil {
				t.Errorf("ready, but there is no %s; printed:\n%s", test.want, b.out)
			}
			b.inSync()
		})
	}
}

// TestLostWithTheirGround: objects go with their CRD or namespace, and return with it.
func TestLostWithTheirGround(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("route.yaml", "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r, namespace: late}\n")
	b.write("crd.yaml", crd("example.com", "Route", "routes"))
	b.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n")
	key := Key{Group: "example.com", Kind: "Route", Namespace: "late", Name: "r"}
	b.start()
	b.has(key)
	must(t, os.Rename(b.path("crd.yaml"), b.path("crd")))
	b.hasNot(key)
	b.prints("waiting: " + b.path("route.yaml") + ":1: Route.example.com late/r: the API server has no kind")
	must(t, os.Rename(b.path("crd"), b.path("crd.yaml")))
	b.has(key)
	must(t, os.Rename(b.path("ns.yaml"), b.path("ns")))
	b.hasNot(key)
	b.prints(`namespace "late" does not exist`)
	must(t, os.Rename(b.path("ns"), b.path("ns.yaml")))
	b.has(key)
	b.inSync()
}

// TestDuplicates names both places, and the one that was applied first stays.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("m.yaml", cm("a", "m"))
	b.start()
	b.data("a", "m")
	b.write("b.yaml", docs(cm("other", "1"), cm("a", "b")))
	b.prints(fmt.Sprintf("error: %s:9: ConfigMap ns/a: also defined at %s:1, which is the one that counts", b.path("b.yaml"), b.path("m.yaml")))
	b.data("a", "m")
	must(t, os.Remove(b.path("m.yaml")))
	b.data("a", "b")
	b.inSync()
}

// TestRejected names the line of the field, goes on with the rest, and tries again.
func TestRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.refuse = func(method string, key Key, body map[string]any) *metav1.Status {
		v, _, _ := unstructured.NestedString(body, "data", "v")
		if method != "PATCH" || v != "bad" {
			return nil
		}
		return failed(422, metav1.StatusReasonInvalid, `ConfigMap "a" is invalid: data.v: Invalid value: "bad": must be good`,
			&metav1.StatusDetails{Name: "a", Kind: "ConfigMap", Causes: []metav1.StatusCause{{Field: "data.v"}}})
	}
	b.write("x.yaml", docs("# comment\n"+cm("b", "1"), cm("a", "bad")))
	b.start()
	b.prints("error: " + b.path("x.yaml") + `:16: ConfigMap ns/a: data.v: Invalid value: "bad": must be good`)
	b.data("b", "1")
	if b.sync.Status().InSync {
		t.Error("in sync")
	}
	b.write("x.yaml", docs(cm("b", "1"), cm("a", "good")))
	b.data("a", "good")
	b.inSync()
	b.prints("no errors left")
}

// TestTransient: what passes by itself delays ready, and is not printed.
func TestTransient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	left := 3
	b.api.refuse = func(method string, key Key, _ map[string]any) *metav1.Status {
		if method != "PATCH" || left == 0 {
			return nil
		}
		left--
		return failed(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: error looking up service account ns/default: serviceaccount "default" not found`, nil)
	}
	b.write("p.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\n")
	b.start()
	if b.api.get(Key{Kind: "Pod", Namespace: "ns", Name: "p"}) == nil {
		t.Error("ready before the pod was applied")
	}
	if strings.Contains(b.out.String(), "error") {
		t.Errorf("printed:\n%s", b.out)
	}
}

// TestStatusPass: a status is applied apart, where nobody else writes it.
func TestStatusPass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pod := Key{Kind: "Pod", Namespace: "ns", Name: "p"}
	with := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: {x: 1}\nstatus: {podIP: 10.0.0.1}\n"
	b.write("p.yaml", with)
	b.write("d.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nstatus: {replicas: 1}\n")
	b.write("e.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: e, namespace: ns}\nstatus: {replicas: 1}\n")
	b.start()
	if diff := cmp.Diff(map[string]any{"podIP": "10.0.0.1"}, b.api.get(pod)["status"]); diff != "" {
		t.Error(diff)
	}
	annotation, _, _ := unstructured.NestedString(b.api.get(pod), "metadata", "annotations", statusAnnotation)
	if annotation != statusManual {
		t.Errorf("annotation is %q", annotation)
	}
	if got := b.api.requests("STATUS"); len(got) != 1 {
		t.Errorf("status requests: %v", got)
	}
	if n := strings.Count(b.out.String(), "the status of Deployment objects"); n != 1 {
		t.Errorf("%d notices in:\n%s", n, b.out)
	}
	b.write("p.yaml", with[:strings.Index(with, "status:")])
	b.eventually("the status is given up", func() bool { return len(b.api.requests("STATUS")) == 2 })
	b.inSync()
	if status := b.api.get(pod)["status"]; status != nil {
		t.Errorf("status is %v", status)
	}
}

// TestDrift: a change by others is reported, and put back by a save or a restart.
func TestDrift(t *testing.T) {
	tests := []struct {
		name   string
		drift  func(b *bench)
		what   string
		repair func(b *bench)
	}{
		{"edited, saved", func(b *bench) { b.api.edit(configMap("a")) }, "changed by kubectl-edit", func(b *bench) {
			must(b.t, os.Chtimes(b.path("x.yaml"), time.Now(), time.Now()))
		}},
		{"deleted, another object of the file changed", func(b *bench) { b.api.remove(configMap("a")) }, "deleted", func(b *bench) {
			b.write("x.yaml", docs(cm("a", "1"), cm("b", "2")))
		}},
		{"edited, restarted", func(b *bench) { b.api.edit(configMap("a")) }, "changed by kubectl-edit", func(b *bench) {
			b.stop()
			b.start()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.edit = func(cfg *Config) { cfg.driftEvery = 20 * time.Millisecond }
			b.write("x.yaml", docs(cm("a", "1"), cm("b", "1")))
			b.start()
			b.inSync()
			test.drift(b)
			b.prints(fmt.Sprintf("drift: %s:1: ConfigMap ns/a: %s; save the file to put it back", b.path("x.yaml"), test.what))
			if status := b.sync.Status(); !status.InSync || len(status.Drift) != 1 {
				t.Errorf("status: %+v", status)
			}
			if got := b.api.requests("APPLY ConfigMap ns/a"); len(got) != 1 {
				t.Errorf("put back by itself: %v", got)
			}
			test.repair(b)
			b.eventually("put back", func() bool { return len(b.api.requests("APPLY ConfigMap ns/a")) == 2 })
			b.eventually("no drift", func() bool { return len(b.sync.Status().Drift) == 0 })
		})
	}
}

// TestKilled is kill -9 between the record and the apply: what may exist is known.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	recorded := false
	b.api.refuse = func(method string, key Key, _ map[string]any) *metav1.Status {
		if method == "PATCH" && key == configMap("a") {
			data, err := os.ReadFile(filepath.Join(b.state, "inventory.json"))
			recorded = err == nil && bytes.Contains(data, []byte(`"name":"a"`))
		}
		return nil
	}
	b.start()
	b.api.mu.Lock()
	defer b.api.mu.Unlock()
	if !recorded {
		t.Error("applied before it was in the inventory")
	}
}

// TestKilledAndUndone: a change that was applied, not recorded, and undone while
// nobody looked.
func TestKilledAndUndone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	b.write("y.yaml", cm("b", "1"))
	b.start()
	b.stop()
	inventory := filepath.Join(b.state, "inventory.json")
	before := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(inventory, before, before))
	must(t, os.Chtimes(b.path("y.yaml"), before.Add(-time.Hour), before.Add(-time.Hour)))
	b.start()
	if got := b.api.requests("APPLY ConfigMap ns/a"); len(got) != 2 {
		t.Errorf("requests: %v", got)
	}
	if got := b.api.requests("APPLY ConfigMap ns/b"); len(got) != 1 {
		t.Errorf("requests: %v", got)
	}
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

// TestFullDisk: without a record nothing new is applied, and what is known goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	b.start()
	// A file in the place of the directory fails for root too.
	must(t, os.Rename(b.state, b.state+".away"))
	must(t, os.WriteFile(b.state, nil, 0o600))
	b.write("y.yaml", cm("b", "1"))
	b.prints("store inventory of applied manifests: ")
	b.write("x.yaml", cm("a", "2"))
	b.data("a", "2")
	if b.api.get(configMap("b")) != nil {
		t.Error("applied without a record")
	}
	must(t, os.Remove(b.state))
	must(t, os.Rename(b.state+".away", b.state))
	b.data("b", "1")
	b.inSync()
}

// TestPolling: where inotify has reached its limits, changes are still found.
func TestPolling(t *testing.T) {
	for _, limit := range []struct {
		name   string
		notify func() (notifier, error)
		prints string
	}{
		{"instances", func() (notifier, error) { return nil, syscall.EMFILE }, "the limit of inotify instances is reached (fs.inotify.max_user_instances): looking for changes every 20ms instead"},
		{"watches", func() (notifier, error) {
			n, err := newNotifier()
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

type fullNotifier struct{ notifier }

func (fullNotifier) Add(string) error { return syscall.ENOSPC }

// TestUnchangedRestart sends nothing when nothing changed.
func TestUnchangedRestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 20 {
		b.write(fmt.Sprintf("%d.yaml", i), cm(fmt.Sprint("c", i), "1"))
	}
	b.start()
	before := b.api.requests("")
	b.stop()
	b.start()
	if diff := cmp.Diff(before, b.api.requests("")); diff != "" {
		t.Error(diff)
	}
	if status := b.sync.Status(); !status.InSync || status.Objects != 20 {
		t.Errorf("%+v", status)
	}
}

// TestOtherCluster: the inventory of a cluster that is gone means nothing.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", cm("a", "1"))
	b.start()
	b.stop()
	b.api = newFakeAPI(t)
	b.api.objects[Key{Kind: "Namespace", Name: "kube-system"}] = map[string]any{"metadata": map[string]any{"uid": "other"}}
	b.start()
	b.data("a", "1")
	b.prints("is of another cluster")
}

// TestBase: what exists without the directory is restored, not deleted.
func TestBase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	parsed, faults, _ := parse("base.yaml", []byte(docs(cm("built-in", "base"))), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	b.edit = func(cfg *Config) { cfg.Base = []Base{{parsed[0].Unstructured, "keeper"}} }
	b.write("x.yaml", docs(cm("built-in", "mine"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n"))
	b.start()
	b.data("built-in", "mine")
	must(t, os.Remove(b.path("x.yaml")))
	b.data("built-in", "base")
	b.eventually("the namespace is released", func() bool {
		b.api.mu.Lock()
		defer b.api.mu.Unlock()
		_, has, _ := unstructured.NestedMap(b.api.objects[Key{Kind: "Namespace", Name: "default"}], "metadata", "labels")
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

// TestCheck: parts' own checks come before the API server.
func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit = func(cfg *Config) {
		cfg.Check = func(u *unstructured.Unstructured) []Problem {
			switch v, _, _ := unstructured.NestedString(u.Object, "data", "v"); v {
			case "bad":
				return []Problem{{Field: "data.v", Message: "data.v is bad"}}
			case "odd":
				return []Problem{{Field: "data.v", Message: "data.v is odd", Warning: true}}
			}
			return nil
		}
	}
	b.write("x.yaml", docs(cm("a", "bad"), cm("b", "odd")))
	b.start()
	b.prints("error: " + b.path("x.yaml") + ":1: ConfigMap ns/a: data.v is bad")
	b.prints("warning: " + b.path("x.yaml") + ":9: ConfigMap ns/b: data.v is odd")
	b.data("b", "odd")
	if b.api.get(configMap("a")) != nil {
		t.Error("applied what the check refused")
	}
}

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
	must(t, os.Rename(b.path("app/prod/kustomization.yaml"), b.path("app/prod/k")))
	b.eventually("missed", func() bool {
		b.sync.mu.Lock()
		defer b.sync.mu.Unlock()
		return !b.sync.scanner.files[b.path("app/prod/kustomization.yaml")].lastGone.IsZero()
	})
	must(t, os.Rename(b.path("app/prod/k"), b.path("app/prod/kustomization.yaml")))
	b.inSync()
	must(t, os.RemoveAll(b.path("app/prod")))
	b.eventually("missed", func() bool {
		b.sync.mu.Lock()
		defer b.sync.mu.Unlock()
		return !b.sync.scanner.files[b.path("app/prod/kustomization.yaml")].lastGone.IsZero()
	})
	must(t, os.RemoveAll(b.path("app")))
	b.hasNot(configMap("prod-a"))
	if diff := cmp.Diff([]string{"DELETE ConfigMap ns/prod-a"}, b.api.requests("DELETE")); diff != "" {
		t.Error(diff)
	}
}

// TestDryRun sends everything with dry-run set, and reports what would fail.
func TestDryRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("x.yaml", docs(cm("a", "1"), cm("b", "1")))
	b.start()
	b.stop()
	before := b.api.requests("APPLY")
	b.api.refuse = func(method string, key Key, _ map[string]any) *metav1.Status {
		if key.Name != "c" {
			return nil
		}
		return failed(403, metav1.StatusReasonForbidden, "denied by a webhook", nil)
	}
	b.write("x.yaml", cm("a", "2"))
	b.write("y.yaml", docs(cm("c", "1"), "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r}\n"))
	b.write("z.yaml", docs("apiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n", strings.ReplaceAll(cm("d", "1"), "namespace: ns", "namespace: late")))
	must(t, os.Chtimes(b.path("x.yaml"), time.Unix(1, 0), time.Unix(1, 0)))
	plan, err := New(b.config()).DryRun(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	x, y, z := b.path("x.yaml"), b.path("y.yaml"), b.path("z.yaml")
	want := fmt.Sprintf(`3 to apply, 1 to prune, 0 unchanged, 2 failed
  apply    Namespace late  (%[3]s:1)
  apply    ConfigMap late/d  (%[3]s:5: not tried, as its namespace does not exist yet)
  apply    ConfigMap ns/a  (%[1]s:1)
  prune    ConfigMap ns/b  (%[1]s)
  failed   %[2]s:1: ConfigMap ns/c: denied by a webhook
  failed   %[2]s:9: Route.example.com r: the API server has no kind Route in example.com/v1; it is applied when a CRD brings it
`, x, y, z)
	if diff := cmp.Diff(want, plan.String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, b.api.requests("APPLY")); diff != "" {
		t.Errorf("it was not dry: %s", diff)
	}
}

// TestDryRunScratch applies the ground for real, so that the rest can be tried.
func TestDryRunScratch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("r.yaml", "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r, namespace: late}\n")
	b.write("z.yaml", docs("apiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n", crd("example.com", "Route", "routes")))
	b.api.crdDelay = 200 * time.Millisecond
	plan, err := New(b.config()).DryRun(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Failed)+len(plan.Waiting) > 0 || len(plan.Apply) != 3 {
		t.Errorf("plan: %s", plan)
	}
	if got := b.api.requests("DRYAPPLY Route"); len(got) != 1 {
		t.Errorf("the route was not tried: %v", b.api.requests(""))
	}
}

func TestNoDirs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := New(Config{})
	if err := s.Run(ctx, cancel); err != nil {
		t.Fatal(err)
	}
	if !s.Status().InSync {
		t.Error("not in sync")
	}
}

func TestCheckDirs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "x.txt"), nil, 0o644))
	tests := []struct{ name, path, want string }{
		{"directory", dir, ""},
		{"missing", filepath.Join(dir, "no"), "manifest directory DIR/no: no such file or directory"},
		{"other file", filepath.Join(dir, "x.txt"), "manifest directory DIR/x.txt: neither a directory nor a .yaml, .yml or .json file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := CheckDirs([]string{test.path}); err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDamagedInventory(t *testing.T) {
	b := newBench(t)
	must(t, os.WriteFile(filepath.Join(b.state, "inventory.json"), []byte("{"), 0o600))
	err := New(b.config()).Run(t.Context(), func() {})
	if err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("error is %v", err)
	}
	if errors.Unwrap(err) == nil {
		t.Error("the cause is lost")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
