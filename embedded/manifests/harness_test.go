package manifests

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
