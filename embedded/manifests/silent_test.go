package manifests

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// kill puts an APIService there behind which nobody answers.
func (f *fakeAPI) kill(gv string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	group, version, _ := strings.Cut(gv, "/")
	f.dead[gv] = true
	name := version + "." + group
	f.objects[source.Key{Group: "apiregistration.k8s.io", Kind: "APIService", Name: name}] = map[string]any{
		"metadata": map[string]any{"name": name},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Available", "status": "False", "reason": "ServiceNotFound", "message": "service/nothing is not present"},
		}},
	}
}

func (f *fakeAPI) revive(gv string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	group, version, _ := strings.Cut(gv, "/")
	delete(f.dead, gv)
	delete(f.objects, source.Key{Group: "apiregistration.k8s.io", Kind: "APIService", Name: version + "." + group})
}

const foo = "apiVersion: foo.example.com/v1\nkind: Foo\nmetadata: {name: f, namespace: ns}\n"

// Where nobody answers for one group, its objects wait and say
// why, and everything else is applied and deleted.
func TestSilentGroup(t *testing.T) {
	rulebook.Covers(t, "B76")
	t.Parallel()
	why := "APIService v1.foo.example.com is not available: ServiceNotFound: service/nothing is not present; the object is applied when it answers"
	b := newBench(t)
	b.api.kill("foo.example.com/v1")
	b.write("foo.yaml", foo)
	b.write("x.yaml", cm("a", "1"))
	b.write("y.yaml", cm("b", "1"))
	b.start()
	b.data("a", "1")
	b.prints("waiting: " + b.path("foo.yaml") + ":1: Foo.foo.example.com ns/f: " + why)
	b.write("x.yaml", cm("a", "2"))
	b.data("a", "2")
	must(t, os.Remove(b.path("y.yaml")))
	b.hasNot(configMap("b"))
	b.write("z.yaml", cm("c", "1"))
	b.data("c", "1")
	if status := b.sync.Status(); status.InSync || len(status.Waiting) != 1 || status.Waiting[0].Message != why {
		t.Errorf("status is %+v", status)
	}
	b.api.mu.Lock()
	b.api.serve("foo.example.com/v1", "Foo", "foos", true, false)
	b.api.mu.Unlock()
	b.api.revive("foo.example.com/v1")
	b.has(source.Key{Group: "foo.example.com", Kind: "Foo", Namespace: "ns", Name: "f"})
	b.inSync()
}

// A group that falls silent makes nothing of the rest wait, also
// across a restart, and its objects do not count as gone.
func TestSilentLater(t *testing.T) {
	rulebook.Covers(t, "B76")
	t.Parallel()
	b := newBench(t)
	b.api.serve("foo.example.com/v1", "Foo", "foos", true, false)
	b.write("foo.yaml", foo)
	b.write("bar.yaml", strings.ReplaceAll(foo, "name: f,", "name: g,"))
	b.write("x.yaml", cm("a", "1"))
	b.start()
	b.inSync()
	b.stop()
	applies := len(b.api.requests("APPLY Foo"))
	b.api.kill("foo.example.com/v1")
	must(t, os.Remove(b.path("bar.yaml")))
	b.write("x.yaml", cm("a", "2"))
	b.start()
	b.data("a", "2")
	b.prints("prune: APIService v1.foo.example.com is not available")
	b.api.revive("foo.example.com/v1")
	b.hasNot(source.Key{Group: "foo.example.com", Kind: "Foo", Namespace: "ns", Name: "g"})
	b.inSync()
	if got := len(b.api.requests("APPLY Foo")); got != applies {
		t.Errorf("applied again: %v", b.api.requests("APPLY Foo"))
	}
}

// TestOneKindFails: the list of one kind fails, as with a conversion webhook that is
// dead; what others hold is found and applied all the same.
func TestOneKindFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.serve("foo.example.com/v1", "Foo", "foos", true, false)
	b.write("foo.yaml", foo)
	b.write("x.yaml", cm("a", "1"))
	b.start()
	b.inSync()
	b.stop()
	b.api.refuse = func(_ string, key source.Key, _ map[string]any) *metav1.Status {
		if key.Kind == "Foo" {
			return failed(500, metav1.StatusReasonInternalError, "conversion webhook failed", nil)
		}
		return nil
	}
	b.write("x.yaml", cm("a", "2"))
	b.start()
	b.data("a", "2")
}

// What was deleted and is held is named, also after a
// restart, and the directories are not in sync before it is gone.
func TestStaysTerminating(t *testing.T) {
	rulebook.Covers(t, "B76")
	t.Parallel()
	b := newBench(t)
	held := strings.Replace(cm("held", "1"), "  name:", "  finalizers: [example.com/a]\n  name:", 1)
	b.write("held.yaml", held)
	b.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: old, finalizers: [example.com/b]}\n")
	b.write("x.yaml", cm("a", "1"))
	b.api.kill("foo.example.com/v1")
	b.start()
	b.inSync()
	namespace := source.Key{Kind: "Namespace", Name: "old"}
	b.api.mu.Lock()
	b.api.objects[namespace]["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "NamespaceDeletionDiscoveryFailure", "status": "True", "message": "Discovery failed for some groups"},
		map[string]any{"type": "NamespaceContentRemaining", "status": "False", "message": "All content removed"},
		map[string]any{"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content has finalizers"},
	}}
	b.api.mu.Unlock()
	must(t, os.Remove(b.path("held.yaml")))
	must(t, os.Remove(b.path("ns.yaml")))
	want := []string{
		"ConfigMap ns/held: was deleted, and is not gone yet: its finalizers have not been removed: example.com/a",
		"Namespace old: was deleted, and is not gone yet: its finalizers have not been removed: example.com/b; APIService v1.foo.example.com is not available: ServiceNotFound: service/nothing is not present; Some content has finalizers",
	}
	named := func() bool {
		status := b.sync.Status()
		if status.InSync || len(status.Leaving) != len(want) {
			return false
		}
		for i, text := range want {
			if source.Text(status.Leaving[i]) != text {
				return false
			}
		}
		return true
	}
	b.eventually("both are named", named)
	b.stop()
	b.start()
	b.eventually("both are named after a restart", named)
	b.api.remove(configMap("held"))
	b.api.remove(namespace)
	b.inSync()
}
