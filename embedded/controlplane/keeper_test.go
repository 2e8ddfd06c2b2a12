package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// server is as much of an API server as a keeper sees.
type server struct {
	mu sync.Mutex
	// applied counts the writes of each object, as "configmaps linkerd-config".
	applied map[string]int
	order   []string
	// refuse, when it returns an error, refuses the write of an object; deleted is whether it was deleted before.
	refuse  func(id string, deleted bool) error
	deleted map[string]bool
	// terminating is what the namespace has beside its name while it is being deleted.
	terminating map[string]any
	uid         string
}

func (s *server) client() *fake.FakeDynamicClient {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		id := action.GetResource().Resource + " " + action.(interface{ GetName() string }).GetName()
		object := map[string]any{"metadata": map[string]any{"uid": s.uid, "resourceVersion": fmt.Sprint(len(s.order))}}
		switch action.GetVerb() {
		case "delete":
			s.deleted[id] = true
		case "patch":
			s.applied[id]++
			s.order = append(s.order, id)
			if s.refuse != nil {
				if err := s.refuse(id, s.deleted[id]); err != nil {
					return true, nil, err
				}
			}
			if s.terminating != nil && id == "namespaces linkerd" {
				object = s.terminating
			}
		}
		return true, &unstructured.Unstructured{Object: object}, nil
	})
	return client
}

// keeperTest runs a keeper on a server until the test ends.
type keeperTest struct {
	*server
	*Keeper
	table *problems.Table
	ready bool
	all   int
}

func runKeeper(t *testing.T, s *server) *keeperTest {
	t.Helper()
	table, err := problems.New(problems.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.applied, s.deleted = map[string]int{}, map[string]bool{}
	if s.uid == "" {
		s.uid = "1"
	}
	k := &keeperTest{server: s, table: table, all: len(rendered(t, testConfig()))}
	k.Keeper = newKeeper(KeeperConfig{Describe: testConfig, Problems: table}, s.client())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	unwatched := func(context.Context, *lifecycle.Group) error { return nil }
	go func() { ended <- k.run(ctx, func() { k.ready = true }, unwatched) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return k
}

// after lets time pass, and returns how many objects were written since.
func (k *keeperTest) after(d time.Duration) int {
	before := k.writes()
	time.Sleep(d)
	synctest.Wait()
	return k.writes() - before
}

func (k *keeperTest) writes() int {
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	return len(k.order)
}

func (k *keeperTest) problems() string {
	var all []string
	for _, p := range k.table.List() {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

var configMap = ref{corev1.SchemeGroupVersion.WithResource("configmaps"), "linkerd", "linkerd-config"}

// Objects are written at the start, the namespace first, when a certificate was
// replaced, and one by one when others change them; at no other time.
func TestKeeperWrites(t *testing.T) {
	rulebook.Covers(t, "F6")
	synctest.Test(t, func(t *testing.T) {
		k := runKeeper(t, &server{})
		if n := k.after(time.Hour); n != k.all || k.order[0] != "namespaces linkerd" || !k.ready {
			t.Errorf("at the start: %d of %d written, first %q, ready %v", n, k.all, k.order[0], k.ready)
		}
		k.CertificateReplaced()
		if n := k.after(time.Hour); n != k.all {
			t.Errorf("a certificate replaced: %d of %d written", n, k.all)
		}
		k.changed(configMap, "somebody else's")
		k.changed(configMap, "and another")
		if n := k.after(time.Second); n != 1 || k.order[len(k.order)-1] != "configmaps linkerd-config" {
			t.Errorf("changed by others: %d written, last %q", n, k.order[len(k.order)-1])
		}
		k.Keeper.mu.Lock()
		own := k.kept[configMap]
		k.Keeper.mu.Unlock()
		k.changed(configMap, "overtaken by our own")
		k.changed(configMap, own)
		k.changed(ref{configMap.resource, "linkerd", "a user's"}, "1")
		if n := k.after(time.Hour); n != 0 {
			t.Errorf("our own change and an object of others: %d written", n)
		}
		k.changed(configMap, "")
		if n := k.after(time.Second); n != 1 {
			t.Errorf("deleted: %d written", n)
		}
	})
}

// One that is refused is a problem; the others are there, and it follows when it
// can.
func TestKeeperRefused(t *testing.T) {
	rulebook.Covers(t, "F1")
	synctest.Test(t, func(t *testing.T) {
		s := &server{refuse: func(id string, _ bool) error {
			if id == "services linkerd-dst" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "linkerd-dst", errors.New("no room"))
			}
			return nil
		}}
		k := runKeeper(t, s)
		k.after(2 * time.Second)
		want := `Service linkerd/linkerd-dst: cannot be written: services "linkerd-dst" is forbidden: no room; tools that look for it do not find it as it should be`
		if got := k.problems(); !k.ready || got != want {
			t.Errorf("ready %v, problems\n%s\nwant\n%s", k.ready, got, want)
		}
		if len(k.applied) != k.all {
			t.Errorf("%d of %d tried", len(k.applied), k.all)
		}
		k.server.mu.Lock()
		s.refuse = nil
		k.server.mu.Unlock()
		k.after(time.Minute)
		if got := k.problems(); got != "" {
			t.Errorf("after it is mended: %s", got)
		}
	})
}

// What cannot be changed in place, being immutable or of another type, is deleted
// and made anew; what is refused for another reason stays.
func TestKeeperReplacesWhatIsImmutable(t *testing.T) {
	rulebook.Covers(t, "F1")
	synctest.Test(t, func(t *testing.T) {
		k := runKeeper(t, &server{refuse: func(id string, deleted bool) error {
			switch {
			case id == "configmaps linkerd-config" && !deleted, id == "secrets linkerd-identity-issuer":
				return apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "x", nil)
			case id == "services linkerd-dst":
				return apierrors.NewForbidden(schema.GroupResource{}, "x", nil)
			}
			return nil
		}})
		k.after(2 * time.Second)
		for id, want := range map[string]bool{"configmaps linkerd-config": true, "secrets linkerd-identity-issuer": true, "services linkerd-dst": false, "services linkerd-policy": false} {
			if k.deleted[id] != want {
				t.Errorf("%s deleted: %v, want %v", id, k.deleted[id], want)
			}
		}
		if got := k.problems(); strings.Contains(got, "linkerd-config") || !strings.Contains(got, "linkerd-identity-issuer") || !k.ready {
			t.Errorf("ready %v, problems\n%s", k.ready, got)
		}
	})
}

// A namespace that is being deleted holds up nothing: its holder is named, what is
// outside of it is written, and the rest when it is back.
func TestKeeperNamespaceBeingDeleted(t *testing.T) {
	rulebook.Covers(t, "F1, F6")
	synctest.Test(t, func(t *testing.T) {
		s := &server{terminating: map[string]any{
			"metadata": map[string]any{"uid": "1", "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": []any{"example.com/hold"}},
			"status": map[string]any{"conditions": []any{
				map[string]any{"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: pods. has 1 resource instances"},
				map[string]any{"type": "NamespaceDeletionContentFailure", "status": "False", "message": "All content successfully deleted"},
			}},
		}}
		k := runKeeper(t, s)
		k.after(time.Minute)
		want := "Namespace linkerd: it is being deleted, and comes back with all its objects when that is done: held by its finalizers example.com/hold; " +
			"Some resources are remaining: pods. has 1 resource instances; tools that look for it do not find it as it should be"
		if got := k.problems(); !k.ready || got != want {
			t.Errorf("ready %v, problems\n%s\nwant\n%s", k.ready, got, want)
		}
		if k.applied["configmaps linkerd-config"] > 0 || k.applied["clusterroles linkerd-policy"] == 0 {
			t.Errorf("written meanwhile: %v", k.applied)
		}
		k.server.mu.Lock()
		s.terminating, s.uid = nil, "2"
		k.server.mu.Unlock()
		k.changed(ref{corev1.SchemeGroupVersion.WithResource("namespaces"), "", "linkerd"}, "")
		k.after(time.Second)
		if got := k.problems(); got != "" || len(k.applied) != k.all {
			t.Errorf("after its end: %d of %d written, problems %s", len(k.applied), k.all, got)
		}
		// Deleted again, and noticed by a write into it.
		k.server.mu.Lock()
		s.uid = "3"
		s.refuse = func(id string, _ bool) error {
			if id != "configmaps linkerd-config" {
				return nil
			}
			s.refuse = nil
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", nil)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		}
		k.server.mu.Unlock()
		before := k.applied["services linkerd-dst"]
		k.changed(configMap, "")
		k.after(time.Second)
		if k.applied["services linkerd-dst"] == before || k.problems() != "" {
			t.Errorf("the objects of the new namespace were not written; problems %s", k.problems())
		}
	})
}

// A configuration that lacks something is a fault of ours.
func TestKeeperNeedsAConfiguration(t *testing.T) {
	k := newKeeper(KeeperConfig{Describe: func() Config { return Config{} }}, (&server{}).client())
	if err := k.Run(t.Context(), func() { t.Error("ready") }); err == nil {
		t.Error("an empty configuration was accepted")
	}
}

func TestOwned(t *testing.T) {
	rulebook.Covers(t, "B80, C1")
	owned, err := Owned("mesh")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		group, kind, namespace, name string
		want                         bool
	}{
		{"", "Namespace", "", "mesh", true},
		{"", "Namespace", "", "linkerd", false},
		{"", "ConfigMap", "mesh", "linkerd-config", true},
		{"", "ConfigMap", "default", "linkerd-config", false},
		{"", "Secret", "mesh", "linkerd-policy-validator-k8s-tls", true},
		{"", "Secret", "mesh", "linkerd-config-overrides", false},
		{"apps", "Deployment", "mesh", "linkerd-proxy-injector", true},
		{"rbac.authorization.k8s.io", "ClusterRole", "", "linkerd-mesh-identity", true},
		{"batch", "CronJob", "mesh", "linkerd-heartbeat", false},
	} {
		if got := owned(schema.GroupKind{Group: row.group, Kind: row.kind}, row.namespace, row.name); got != row.want {
			t.Errorf("%s %s/%s: %v", row.kind, row.namespace, row.name, got)
		}
	}
}

// Versions that differ in their status alone have one mark where the API server counts the others.
func TestMark(t *testing.T) {
	base := metav1.ObjectMeta{UID: "1", ResourceVersion: "10", Generation: 2, Labels: map[string]string{"a": "b"}}
	change := func(f func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
		changed := base.DeepCopy()
		changed.ResourceVersion = "11"
		f(changed)
		return changed
	}
	deleted := metav1.Unix(1, 0)
	for _, row := range []struct {
		name  string
		other *metav1.ObjectMeta
		same  bool
	}{
		{"status", change(func(*metav1.ObjectMeta) {}), true},
		{"spec", change(func(m *metav1.ObjectMeta) { m.Generation++ }), false},
		{"label", change(func(m *metav1.ObjectMeta) { m.Labels["a"] = "c" }), false},
		{"annotation", change(func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a": ""} }), false},
		{"made anew", change(func(m *metav1.ObjectMeta) { m.UID = "2" }), false},
		{"being deleted", change(func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &deleted }), false},
	} {
		if got := mark(&base) == mark(row.other); got != row.same {
			t.Errorf("%s: the same mark is %v", row.name, got)
		}
	}
	if uncounted := (metav1.ObjectMeta{ResourceVersion: "10"}); mark(&uncounted) == mark(&metav1.ObjectMeta{ResourceVersion: "11"}) {
		t.Error("without a generation, two versions have the same mark")
	}
}
