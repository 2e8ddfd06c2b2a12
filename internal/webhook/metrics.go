package webhook

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label result.
const (
	resultAllowed = "allowed"
	resultDenied  = "denied"
	resultInvalid = "invalid"
)

type metrics struct {
	reviews *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "admission_webhook_reviews_total",
			Help: "Admission reviews, by result; invalid ones could not be used.",
		}, []string{"webhook", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "admission_webhook_review_duration_seconds",
			Help:    "Time from the begin of an admission request to its answer.",
			Buckets: []float64{0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 10},
		}, []string{"webhook"}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.reviews, m.seconds} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("register webhook metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) count(webhook, result string, start time.Time) {
	m.reviews.WithLabelValues(webhook, result).Inc()
	m.seconds.WithLabelValues(webhook).Observe(time.Since(start).Seconds())
}
