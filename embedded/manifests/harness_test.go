package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/logs"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// bench is a Syncer on a directory and a fake API server.
type bench struct {
	t     *testing.T
	api   *fakeAPI
	dir   string
	state string
	out   *logs.Buffer
	sync  *Syncer
	edit  func(*Config)
	stop  func()
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, api: newFakeAPI(t), dir: t.TempDir(), state: t.TempDir(), out: &logs.Buffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("printed:\n%s", b.out)
		}
	})
	return b
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
	b.sync = New(b.config())
	b.stop = parts.Start(b.t, 20*time.Second, b.sync.Run)
}

// reads waits for a reading of the directories that began after change.
func (b *bench) reads(change func()) {
	b.t.Helper()
	newest := func() *source.Snapshot {
		b.sync.reader.mu.Lock()
		defer b.sync.reader.mu.Unlock()
		return b.sync.reader.newest
	}
	before := newest()
	change()
	b.eventually("read again", func() bool { return newest() != before })
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
	eventually.Holds(b.t, what, is, func() string {
		return fmt.Sprintf("requests:\n%s\nstatus: %+v", strings.Join(b.api.requests(""), "\n"), b.sync.Status())
	})
}

func (b *bench) has(keys ...source.Key) {
	b.t.Helper()
	for _, key := range keys {
		b.eventually("there is "+key.String(), func() bool { return b.api.get(key) != nil })
	}
}

func (b *bench) hasNot(keys ...source.Key) {
	b.t.Helper()
	for _, key := range keys {
		b.eventually("there is no "+key.String(), func() bool { return b.api.get(key) == nil })
	}
}

func (b *bench) prints(text string) {
	b.t.Helper()
	b.eventually("prints "+text, func() bool { return strings.Contains(b.out.String(), text) })
}

func (b *bench) deletesNothing() {
	b.t.Helper()
	if deletes := b.api.requests("DELETE"); len(deletes) > 0 {
		b.t.Errorf("deleted: %v", deletes)
	}
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

func configMap(name string) source.Key {
	return source.Key{Kind: "ConfigMap", Namespace: "ns", Name: name}
}

func cm(name, v string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: ns\ndata:\n  v: %q\n", name, v)
}

func docs(parts ...string) string { return strings.Join(parts, "---\n") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
