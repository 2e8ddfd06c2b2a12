package manifests

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestOrder(t *testing.T) {
	rulebook.Covers(t, "B61")
	route := "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r, namespace: ns}\n"
	key := source.Key{Group: "example.com", Kind: "Route", Namespace: "ns", Name: "r"}
	definition := crd("example.com", "Route", "routes")
	tests := []struct {
		name   string
		files  map[string]string
		change func(b *bench)
		want   source.Key
	}{
		{"the CRD sorts last", map[string]string{"00-route.yaml": route, "99-crd.yaml": definition}, nil, key},
		{"one file, wrong order", map[string]string{"x.yaml": docs(route, definition)}, nil, key},
		{"the namespace sorts last", map[string]string{
			"a.yaml": strings.ReplaceAll(cm("a", "1"), "namespace: ns", "namespace: late"),
			"z.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n",
		}, nil, source.Key{Kind: "ConfigMap", Namespace: "late", Name: "a"}},
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
				b.api.objects[source.Key{Kind: "Namespace", Name: "late"}] = map[string]any{}
			}, source.Key{Kind: "ConfigMap", Namespace: "late", Name: "a"}},
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
	key := source.Key{Group: "example.com", Kind: "Route", Namespace: "late", Name: "r"}
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
	b.api.refuse = func(method string, key source.Key, body map[string]any) *metav1.Status {
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
	b.api.refuse = func(method string, key source.Key, _ map[string]any) *metav1.Status {
		if method != "PATCH" || left == 0 {
			return nil
		}
		left--
		return failed(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: error looking up service account ns/default: serviceaccount "default" not found`, nil)
	}
	b.write("p.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\n")
	b.start()
	if b.api.get(source.Key{Kind: "Pod", Namespace: "ns", Name: "p"}) == nil {
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
	pod := source.Key{Kind: "Pod", Namespace: "ns", Name: "p"}
	with := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: {x: 1}\nstatus: {podIP: 10.0.0.1}\n"
	b.write("p.yaml", with)
	b.write("d.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nstatus: {replicas: 1}\n")
	b.write("e.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: e, namespace: ns}\nstatus: {replicas: 1}\n")
	b.start()
	if diff := cmp.Diff(map[string]any{"podIP": "10.0.0.1"}, b.api.get(pod)["status"]); diff != "" {
		t.Error(diff)
	}
	annotation, _, _ := unstructured.NestedString(b.api.get(pod), "metadata", "annotations", "lite.linkerd.io/status")
	if annotation != "manual" {
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
