package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

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
	b.api.refuse = func(method string, key source.Key, _ map[string]any) *metav1.Status {
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
	b.api.objects[source.Key{Kind: "Namespace", Name: "kube-system"}] = map[string]any{"metadata": map[string]any{"uid": "other"}}
	b.start()
	b.data("a", "1")
	b.prints("is of another cluster")
}

// TestCheck: parts' own checks come before the API server.
func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit = func(cfg *Config) {
		cfg.Check = func(u *unstructured.Unstructured, _ func() map[string]string) []problems.Problem {
			switch v, _, _ := unstructured.NestedString(u.Object, "data", "v"); v {
			case "bad":
				return []problems.Problem{{Field: "data.v", Message: "is bad", Severity: problems.Error}}
			case "odd":
				return []problems.Problem{{Field: "data.v", Message: "is odd", Severity: problems.Warning}}
			}
			return nil
		}
	}
	b.write("x.yaml", docs(cm("a", "bad"), cm("b", "odd")))
	b.start()
	b.prints("error: " + b.path("x.yaml") + ":7: ConfigMap ns/a: data.v: is bad")
	b.prints("warning: " + b.path("x.yaml") + ":15: ConfigMap ns/b: data.v: is odd")
	b.data("b", "odd")
	if b.api.get(configMap("a")) != nil {
		t.Error("applied what the check refused")
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
	b.api.refuse = func(method string, key source.Key, _ map[string]any) *metav1.Status {
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
	tests := []struct {
		name  string
		paths []string
		want  string
	}{
		{"directory", []string{dir}, ""},
		{"twice", []string{dir, dir + "/."}, "manifest directory DIR/.: named twice"},
		{"missing", []string{filepath.Join(dir, "no")}, "manifest directory DIR/no: no such file or directory"},
		{"other file", []string{filepath.Join(dir, "x.txt")}, "manifest directory DIR/x.txt: neither a directory nor a .yaml, .yml or .json file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := CheckDirs(test.paths); err != nil {
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
