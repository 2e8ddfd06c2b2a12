package state

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lagMetrics are the <kind>_informer_lag_seconds histograms (D section 4.1).
type lagMetrics struct {
	byKind map[int]prometheus.Histogram
}

// watchMetrics are the kube_watch_* series of Linkerd's policy controller
// (policy-inbound 1.5).
type watchMetrics struct {
	events, errors *prometheus.CounterVec
}

func newWatchMetrics() *watchMetrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label, "kind", "group", "version"})
	}
	return &watchMetrics{
		events: counter("kube_watch_events_total", "Events of watched kinds; a Restart is a new list.", "op"),
		errors: counter("kube_watch_errors_total", "Lists and watches that failed, by reason.", "error"),
	}
}

// event counts an Apply, a Delete or a Restart.
func (m *watchMetrics) event(op string, info *KindInfo) {
	m.events.WithLabelValues(op, info.GVK.Kind, info.GVK.Group, info.GVK.Version).Inc()
}

func (m *watchMetrics) error(err error, info *KindInfo) {
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "Transport" // the API server did not say
	}
	m.errors.WithLabelValues(reason, info.GVK.Kind, info.GVK.Group, info.GVK.Version).Inc()
}

// lagKinds are those whose lag Linkerd observes, with the series' prefix.
func lagKinds() map[int]string {
	return map[int]string{
		Endpoints.id:         "endpoints",
		EndpointSlices.id:    "endpointslices",
		Services.id:          "services",
		Servers.id:           "servers",
		Pods.id:              "pods",
		ExternalWorkloads.id: "externalworkload",
		ServiceProfiles.id:   "serviceprofiles",
	}
}

func (s *State) registerMetrics(registerer prometheus.Registerer) (*lagMetrics, error) {
	lag := &lagMetrics{byKind: map[int]prometheus.Histogram{}}
	if registerer == nil {
		return lag, nil
	}
	if s.config.Cluster == LocalCluster {
		for _, c := range []prometheus.Collector{s.watches.events, s.watches.errors} {
			if err := registerer.Register(c); err != nil {
				return nil, fmt.Errorf("register kube_watch series: %w", err)
			}
			s.collectors = append(s.collectors, c)
		}
	}
	for _, info := range s.config.Kinds {
		table := s.tables[info.id]
		size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        metricName(info) + "_cache_size",
			Help:        "Number of objects held of this kind.",
			ConstLabels: prometheus.Labels{"cluster": s.config.Cluster},
		}, func() float64 { return float64(table.len()) })
		if err := registerer.Register(size); err != nil {
			return nil, fmt.Errorf("register %s_cache_size: %w", info.Name, err)
		}
		s.collectors = append(s.collectors, size)
		prefix, ok := lagKinds()[info.id]
		if !ok || s.config.Cluster != LocalCluster {
			continue
		}
		histogram := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    prefix + "_informer_lag_seconds",
			Help:    "Time between an update of an object, by its managed fields, and its arrival here.",
			Buckets: []float64{0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000},
		})
		if err := registerer.Register(histogram); err != nil {
			return nil, fmt.Errorf("register %s_informer_lag_seconds: %w", prefix, err)
		}
		s.collectors = append(s.collectors, histogram)
		lag.byKind[info.id] = histogram
	}
	return lag, nil
}

// UnregisterMetrics takes this state's series out of its registerer, for a
// linked cluster that is gone.
func (s *State) UnregisterMetrics() {
	for _, c := range s.collectors {
		s.config.Registerer.Unregister(c)
	}
	s.collectors = nil
}

// LocalCluster is the name, in metrics, of the cluster that is served.
const LocalCluster = "local"

func metricName(info *KindInfo) string {
	if info.id == PolicyHTTPRoutes.id {
		return "policy_httproute"
	}
	return info.Name
}

func (s *State) observeLag(info *KindInfo, obj any) {
	histogram := s.lag.byKind[info.id]
	if histogram == nil {
		return
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	if updated, ok := newestUpdate(m); ok {
		histogram.Observe(time.Since(updated).Seconds())
	}
}
