package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

func TestProgressLines(t *testing.T) {
	wings := []embedded.Wing{
		{Name: "store", Parts: []string{"etcd"}, After: map[string][]string{"etcd": {"admin"}}},
		{Name: "API server", Parts: []string{"apiserver", "hooks"}, After: map[string][]string{"apiserver": {"etcd"}, "hooks": {"apiserver"}}},
		{Name: "control plane", Parts: []string{"state", "views"}, After: map[string][]string{"state": {"crds"}, "views": {"state"}}},
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
		"  control plane               waits for crds",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
