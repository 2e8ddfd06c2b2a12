package destination

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// profileMetrics are the series of GetProfile (D section 4.1). Series of a
// Service and of a ServiceProfile end with their last stream, so that churn
// leaves nothing behind (B19).
type profileMetrics struct {
	workloadUpdates prometheus.Counter
	workloadStreams prometheus.Gauge
	// versions count the versions of ServiceProfiles that streams follow.
	versions *view.Set[types.NamespacedName, profileVersion]

	services, profileStreams, profileUpdates *prometheus.Desc

	mu       sync.Mutex
	streams  map[types.NamespacedName]int
	profiles map[types.NamespacedName]*followedProfile
}

// followedProfile is a ServiceProfile, there or not, and how many streams it may decide on.
type followedProfile struct {
	streams int
	view    *view.View[types.NamespacedName, profileVersion]
}

// profileVersion is a version of a ServiceProfile; updates counts those
// before it that were followed.
type profileVersion struct {
	source  profileSource
	updates uint64
}

func newProfileVersionSet(g *view.Graph) *view.Set[types.NamespacedName, profileVersion] {
	return view.NewSet(g, "destination/profile-versions", func(r *view.Reader, name types.NamespacedName, previous *profileVersion) profileVersion {
		sp, _ := state.Get(r.Reader, state.ServiceProfiles, name.Namespace, name.Name)
		now := profileVersion{source: sourceOf(sp)}
		if previous != nil {
			now.updates = previous.updates
			if previous.source != now.source {
				now.updates++
			}
		}
		return now
	}, func(a, b profileVersion) bool { return a == b })
}

func newProfileMetrics(registerer prometheus.Registerer, versions *view.Set[types.NamespacedName, profileVersion]) (*profileMetrics, error) {
	profile := []string{"namespace", "profile"}
	m := &profileMetrics{
		workloadStreams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "workload_subscribers", Help: "Streams that follow the profile of an endpoint."}),
		workloadUpdates: prometheus.NewCounter(prometheus.CounterOpts{Name: "workload_updates", Help: "Profiles of endpoints sent."}),
		versions:        versions,
		services:        prometheus.NewDesc("service_subscribers", "Streams that follow the profile of a Service.", []string{"namespace", "name"}, nil),
		profileStreams:  prometheus.NewDesc("profile_subscribers", "Streams on which a ServiceProfile may decide.", profile, nil),
		profileUpdates:  prometheus.NewDesc("profile_updates", "Changes of a ServiceProfile while streams followed it.", profile, nil),
		streams:         map[types.NamespacedName]int{},
		profiles:        map[types.NamespacedName]*followedProfile{},
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.workloadStreams, m.workloadUpdates, m} {
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

// joinService is joinWorkload for the profile of a Service, which the
// ServiceProfiles of that name may decide on: the client's and the Service's.
func (m *profileMetrics) joinService(key serviceProfileKey, fqn string) (leave func()) {
	service := types.NamespacedName{Namespace: key.namespace, Name: key.service}
	names := []types.NamespacedName{{Namespace: key.namespace, Name: fqn}}
	if key.client != "" {
		names = append(names, types.NamespacedName{Namespace: key.client, Name: fqn})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams[service]++
	for _, name := range names {
		if m.profiles[name] == nil {
			m.profiles[name] = &followedProfile{view: m.versions.Acquire(name)}
		}
		m.profiles[name].streams++
	}
	return func() { m.leaveService(service, names) }
}

func (m *profileMetrics) leaveService(service types.NamespacedName, names []types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[service]--; m.streams[service] == 0 {
		delete(m.streams, service)
	}
	for _, name := range names {
		followed := m.profiles[name]
		if followed.streams--; followed.streams == 0 {
			followed.view.Release()
			delete(m.profiles, name)
		}
	}
}

// held returns how many series are kept.
func (m *profileMetrics) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.streams) + len(m.profiles)
}

// Describe implements prometheus.Collector.
func (m *profileMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.services, m.profileStreams, m.profileUpdates} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *profileMetrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for service, n := range m.streams {
		out <- prometheus.MustNewConstMetric(m.services, prometheus.GaugeValue, float64(n), service.Namespace, service.Name)
	}
	for name, followed := range m.profiles {
		out <- prometheus.MustNewConstMetric(m.profileStreams, prometheus.GaugeValue, float64(followed.streams), name.Namespace, name.Name)
		out <- prometheus.MustNewConstMetric(m.profileUpdates, prometheus.CounterValue, float64(followed.view.Current().Value.updates), name.Namespace, name.Name)
	}
}
