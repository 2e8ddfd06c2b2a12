package embedded

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

func TestProgressLines(t *testing.T) {
	wings := []wing{
		{name: "store", parts: []string{"etcd"}, after: map[string][]string{"etcd": {"admin"}}},
		{name: "API server", parts: []string{"apiserver", "hooks"}, after: map[string][]string{"apiserver": {"etcd"}, "hooks": {"apiserver"}}},
		{name: "Linkerd's kinds", parts: []string{"crds"}, after: map[string][]string{"crds": {"apiserver"}}},
		{name: "control plane", parts: []string{"state", "views"}, after: map[string][]string{"state": {"crds"}, "views": {"state"}}},
		{name: "manifests", parts: []string{"manifests"}, after: map[string][]string{"manifests": {"views", "crds", "hooks", "etcd"}}},
	}
	ready := func(name string, at time.Duration) lifecycle.Status {
		return lifecycle.Status{Name: name, State: lifecycle.Running, Ready: at}
	}
	parts := []lifecycle.Status{
		ready("admin", 1), ready("etcd", 120*time.Millisecond), ready("apiserver", time.Second),
		{Name: "hooks", State: lifecycle.Starting, WaitsFor: "500 Internal Server Error"}, {Name: "crds", State: lifecycle.Starting},
		{Name: "state", State: lifecycle.Waiting}, {Name: "views", State: lifecycle.Waiting}, {Name: "manifests", State: lifecycle.Waiting},
	}
	got := progressLines(wings, parts, 1500*time.Millisecond)
	want := []string{
		"√ store               0.1 s",
		"  API server          1.5 s   starting hooks",
		"  Linkerd's kinds     1.5 s   starting crds",
		"  control plane               waits for Linkerd's kinds",
		"  manifests                   waits for API server, Linkerd's kinds, control plane",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Later, why it takes so long is shown in its place.
	if got, want := progressLines(wings, parts, 6*time.Second)[1], "  API server          6.0 s   starting hooks: 500 Internal Server Error"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
