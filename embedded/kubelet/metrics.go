package kubelet

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	bound, written, ended, errors prometheus.Counter
	startup                       prometheus.Histogram
	addresses                     atomic.Pointer[addresses]
}

// newMetrics registers the kubelet's metrics, unless registerer is nil.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "lite_kubelet_" + name, Help: help})
	}
	m := &metrics{
		bound:   counter("pods_bound_total", "Pods that were given a node."),
		written: counter("pod_status_writes_total", "Writes of a pod's status."),
		ended:   counter("pods_ended_total", "Deleted pods whose end was confirmed."),
		errors:  counter("errors_total", "Steps that failed."),
		startup: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lite_kubelet_pod_startup_seconds", Help: "Time from first seeing a pending pod to its status being Running.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	if registerer == nil {
		return m, nil
	}
	gauge := func(name, help string, value func(*addresses) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lite_kubelet_" + name, Help: help}, func() float64 {
			if a := m.addresses.Load(); a != nil {
				return float64(value(a))
			}
			return 0
		})
	}
	for _, collector := range []prometheus.Collector{
		m.bound, m.written, m.ended, m.errors, m.startup,
		gauge("pod_addresses_used", "Addresses of the pod ranges that pods and nodes have.", func(a *addresses) int { used, _ := a.counts(); return used }),
		gauge("pod_addresses_resting", "Addresses of the pod ranges given up too recently to be used again.", func(a *addresses) int { _, resting := a.counts(); return resting }),
	} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("register kubelet metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) watch(a *addresses) { m.addresses.Store(a) }
