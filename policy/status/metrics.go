package status

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the original counts of its patches, by its names (policy-status 5).
type metrics struct {
	patches, errors, timeouts            prometheus.Counter
	enqueues, dequeues, drops, overflows prometheus.Counter
	duration                             prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "resource_status_" + name, Help: help})
	}
	m := &metrics{
		patches:  counter("patches_total", "Patches of a status that succeeded."),
		errors:   counter("patch_api_errors_total", "Patches of a status that the API server refused."),
		timeouts: counter("patch_timeouts_total", "Patches of a status that took too long."),
		enqueues: counter("patch_enqueues_total", "Patches of a status that were found to be necessary."),
		dequeues: counter("patch_dequeues_total", "Patches of a status that were taken up."),
		drops:    counter("patch_drops_total", "Objects left to the next holder of the Lease."),
		// The queue holds each object once at most, and so cannot overflow.
		overflows: counter("patch_enqueue_overflows_total", "Patches of a status that did not fit into the queue."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "resource_status_patch_duration_seconds",
			Help:    "Time that a patch of a status took.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5},
		}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.patches, m.errors, m.timeouts, m.enqueues, m.dequeues, m.drops, m.overflows, m.duration} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of status: %w", err)
		}
	}
	return m, nil
}
