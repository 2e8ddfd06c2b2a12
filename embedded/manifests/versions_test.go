package manifests

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// An apply that fails because the object does not fit the version in which
// its fields were written moves the owners, and succeeds.
func TestNewerVersion(t *testing.T) {
	rulebook.Covers(t, "B77")
	t.Parallel()
	thing := "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t, namespace: ns}\n"
	key := source.Key{Group: "example.com", Kind: "Thing", Namespace: "ns", Name: "t"}
	b := newBench(t)
	b.api.serve("example.com/v1", "Thing", "things", true, false)
	b.api.serve("example.com/v2", "Thing", "things", true, false)
	b.write("t.yaml", thing)
	b.start()
	b.inSync()
	b.api.mu.Lock()
	b.api.objects[key]["version"] = "example.com/v1"
	b.api.refuse = func(method string, k source.Key, _ map[string]any) *metav1.Status {
		if method == "PATCH" && k == key && b.api.objects[key]["version"] == "example.com/v1" {
			return failed(500, "", ".spec.accessPolicy: field not declared in schema", nil)
		}
		return nil
	}
	b.api.mu.Unlock()
	b.write("t.yaml", strings.Replace(thing, "/v1", "/v2", 1))
	b.eventually("applied in the new version", func() bool { return len(b.api.requests("APPLY Thing")) == 2 })
	b.inSync()
	b.deletesNothing()
}

// Such a manifest applies no status, leaves the Pod to the kubelet, and
// gives no notice; also within a List.
func TestEmptyStatus(t *testing.T) {
	rulebook.Covers(t, "B78")
	t.Parallel()
	b := newBench(t)
	b.edit = func(cfg *Config) {
		cfg.StatusOwners = map[schema.GroupKind]string{{Group: "apps", Kind: "Deployment"}: "its controller"}
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: {}\nstatus: {}\n"
	b.write("p.yaml", pod)
	b.write("l.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: ns}, status: {phase: Pending}}\n")
	b.write("d.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nstatus: {}\n")
	b.start()
	b.inSync()
	if got := b.api.requests("STATUS"); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
	for _, name := range []string{"p", "q"} {
		metadata := b.api.get(source.Key{Kind: "Pod", Namespace: "ns", Name: name})["metadata"].(map[string]any)
		if metadata["annotations"] != nil {
			t.Errorf("Pod %s has annotations %v", name, metadata["annotations"])
		}
	}
	if strings.Contains(b.out.String(), "is left out") {
		t.Errorf("printed %s", b.out)
	}
}
