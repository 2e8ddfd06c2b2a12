package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Two control planes in one process have nothing in common: each registers its
// series once, on the registry that it is given.
func TestTwoCoresInOneProcess(t *testing.T) {
	t.Run("B21", func(t *testing.T) {
		before := seriesOf(t, prometheus.DefaultGatherer)
		for _, replica := range []string{"first", "second"} {
			registry := prometheus.NewRegistry()
			newTestCore(t, registry)
			found := seriesOf(t, registry)
			for _, name := range []string{"pod_cache_size", "job_cache_size", "cluster_store_size", "destination_views", "workqueue_drops_total"} {
				if !found[name] {
					t.Errorf("%s core: no series %s", replica, name)
				}
			}
		}
		for name := range seriesOf(t, prometheus.DefaultGatherer) {
			if !before[name] {
				t.Errorf("%s is registered for the whole process", name)
			}
		}
	})
}

// newTestCore builds a control plane against an API server that is never asked.
func newTestCore(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	var options coreOptions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.addFlags(flags)
	if err := flags.Parse([]string{"--random-ports"}); err != nil {
		t.Fatal(err)
	}
	if err := options.complete(); err != nil {
		t.Fatal(err)
	}
	bound, err := options.addresses.bind("destination", "policy", "admin")
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
	c, err := newCore(core{
		options: &options, log: slog.New(slog.NewTextHandler(&log, nil)), registry: registry,
		listeners: bound, client: client, kube: kube, holder: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.parts(true, nil, nil); err != nil {
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
