package extworkloads

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queueName is the label of the queue's series.
const queueName = "endpoints_controller_workqueue"

// queueMetrics are the workqueue_* series (D section 4.1). They outlast terms of leadership.
type queueMetrics struct {
	depth, unfinished, longest  *prometheus.GaugeVec
	adds, retries, drops        *prometheus.CounterVec
	queueDuration, workDuration *prometheus.HistogramVec
}

var _ workqueue.MetricsProvider = (*queueMetrics)(nil)

func newQueueMetrics(registerer prometheus.Registerer) (*queueMetrics, error) {
	labels := []string{"name"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "workqueue", Name: name, Help: help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "workqueue", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "workqueue", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(1e-8, 10, 10),
		}, labels)
	}
	m := &queueMetrics{
		depth:         gauge("depth", "Services that wait to be looked at."),
		adds:          counter("adds_total", "Services that were to be looked at."),
		queueDuration: histogram("queue_duration_seconds", "How long Services wait."),
		workDuration:  histogram("work_duration_seconds", "How long it takes to look at a Service and write its slices."),
		unfinished:    gauge("unfinished_work_seconds", "How long ago the work in hand was begun, in all."),
		longest:       gauge("longest_running_processor_seconds", "How long ago the oldest work in hand was begun."),
		retries:       counter("retries_total", "Services that are tried again."),
		drops:         counter("drops_total", "Services that were given up."),
	}
	m.drops.WithLabelValues(queueName)
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.depth, m.adds, m.queueDuration, m.workDuration, m.unfinished, m.longest, m.retries, m.drops} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register workqueue metrics: %w", err)
		}
	}
	return m, nil
}

// NewDepthMetric and the following implement workqueue.MetricsProvider.
func (m *queueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(name)
}

func (m *queueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

func (m *queueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.queueDuration.WithLabelValues(name)
}

func (m *queueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.workDuration.WithLabelValues(name)
}

func (m *queueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

func (m *queueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(name)
}

func (m *queueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(name)
}
