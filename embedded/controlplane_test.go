package embedded

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Two control planes in one process have nothing in common: each registers its
// series once, on the registry that it is given.
func TestTwoControlPlanesInOneProcess(t *testing.T) {
	rulebook.Covers(t, "B21")
	before := seriesOf(t, prometheus.DefaultGatherer)
	for _, replica := range []string{"first", "second"} {
		registry := prometheus.NewRegistry()
		newTestControlPlane(t, registry)
		found := seriesOf(t, registry)
		for _, name := range []string{"pod_cache_size", "job_cache_size", "cluster_store_size", "destination_views", "workqueue_drops_total"} {
			if !found[name] {
				t.Errorf("%s control plane: no series %s", replica, name)
			}
		}
	}
	for name := range seriesOf(t, prometheus.DefaultGatherer) {
		if !before[name] {
			t.Errorf("%s is registered for the whole process", name)
		}
	}
}

// newTestControlPlane builds a control plane against an API server that is never asked.
func newTestControlPlane(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	config := DefaultControlPlane()
	config.Addresses.Random = true
	bound, err := config.Addresses.bind(nil, "destination", "policy", "admin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bound.close)
	client := &rest.Config{Host: "127.0.0.1:1"}
	kube, err := kubernetes.NewForConfig(client)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	c, err := newControlPlane(controlPlane{
		config: &config, log: slog.New(slog.NewTextHandler(&log, nil)), registry: registry,
		listeners: bound, client: client, kube: kube, leases: kube, holder: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	list := &partList{}
	parts, err := c.add(list, part{}, part{})
	if err == nil {
		err = c.addWriters(list, parts.viewsUp)
	}
	if err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("logged:\n%s", log.String())
	}
}

// seriesOf are the names of what is registered.
func seriesOf(t *testing.T, from prometheus.Gatherer) map[string]bool {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, family := range families {
		names[family.GetName()] = true
	}
	return names
}
