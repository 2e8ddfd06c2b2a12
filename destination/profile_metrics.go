package destination

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// profileMetrics are the series of GetProfile (D section 4.1). Series of a
// Service end with its last stream, so that churn leaves nothing behind (B19).
type profileMetrics struct {
	workloadUpdates prometheus.Counter
	workloadStreams prometheus.Gauge
	profileUpdates  prometheus.Counter
	services        *prometheus.GaugeVec

	mu      sync.Mutex
	streams map[[2]string]int
}

func newProfileMetrics(registerer prometheus.Registerer) (*profileMetrics, error) {
	m := &profileMetrics{
		workloadStreams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "workload_subscribers", Help: "Streams that follow the profile of an endpoint."}),
		workloadUpdates: prometheus.NewCounter(prometheus.CounterOpts{Name: "workload_updates", Help: "Profiles of endpoints sent."}),
		profileUpdates:  prometheus.NewCounter(prometheus.CounterOpts{Name: "profile_updates", Help: "Profiles of Services sent."}),
		services: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "service_subscribers", Help: "Streams that follow the profile of a Service."},
			[]string{"namespace", "name"}),
		streams: map[[2]string]int{},
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.workloadStreams, m.workloadUpdates, m.profileUpdates, m.services} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register profile metrics: %w", err)
		}
	}
	return m, nil
}

// joinWorkload counts a stream until the returned function is called.
func (m *profileMetrics) joinWorkload() (leave func()) {
	m.workloadStreams.Inc()
	return m.workloadStreams.Dec
}

// joinService is joinWorkload for the profile of a Service.
func (m *profileMetrics) joinService(key serviceProfileKey) (leave func()) {
	id := [2]string{key.namespace, key.service}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams[id]++
	m.services.WithLabelValues(id[:]...).Set(float64(m.streams[id]))
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.streams[id]--; m.streams[id] == 0 {
			delete(m.streams, id)
			m.services.DeleteLabelValues(id[:]...)
			return
		}
		m.services.WithLabelValues(id[:]...).Set(float64(m.streams[id]))
	}
}

func (m *profileMetrics) workloadUpdated() { m.workloadUpdates.Inc() }
func (m *profileMetrics) profileUpdated()  { m.profileUpdates.Inc() }
