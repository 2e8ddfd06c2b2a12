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
	}
	ready := func(name string, at time.Duration) lifecycle.Status {
		return lifecycle.Status{Name: name, State: lifecycle.Running, Ready: at}
	}
	got := progressLines(wings, []lifecycle.Status{
		ready("admin", 1), ready("etcd", 120*time.Millisecond), ready("apiserver", time.Second),
		{Name: "hooks", State: lifecycle.Starting}, {Name: "crds", State: lifecycle.Starting},
		{Name: "state", State: lifecycle.Waiting}, {Name: "views", State: lifecycle.Waiting},
	}, 1500*time.Millisecond)
	want := []string{
		"√ store               0.1 s",
		"  API server          1.5 s   starting hooks",
		"  Linkerd's kinds     1.5 s   starting crds",
		"  control plane               waits for Linkerd's kinds",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
