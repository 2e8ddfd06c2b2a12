package destination

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// groupKey is how the original groups its subscribers, and so the labels of
// the endpoints_* metrics (D section 4.1).
type groupKey struct {
	cluster string
	portKey
	hostname, node string
}

// group counts the streams of one key.
type group struct {
	metrics *metrics
	key     groupKey
	streams int // guarded by metrics.mu
	latest  atomic.Pointer[snapshot]
	updates atomic.Uint64
}

// metrics are collected when they are asked for: a stream costs no series
// of its own, and a group's series end with its last stream.
type metrics struct {
	server *Server

	mu     sync.Mutex
	groups map[groupKey]*group

	subscribers, updates, pods, exists, views *prometheus.Desc
}

func newMetrics(registerer prometheus.Registerer, server *Server) (*metrics, error) {
	labels := []string{"cluster", "namespace", "service", "port", "hostname", "nodename"}
	m := &metrics{
		server:      server,
		groups:      map[groupKey]*group{},
		subscribers: prometheus.NewDesc("endpoints_subscribers", "Streams that follow the endpoints of a Service port.", labels, nil),
		updates:     prometheus.NewDesc("endpoints_updates", "Changes of the endpoints of a Service port.", labels, nil),
		pods:        prometheus.NewDesc("endpoints_pods", "Endpoints that clients of a Service port see.", labels, nil),
		exists:      prometheus.NewDesc("endpoints_exists", "Whether the Service exists.", labels, nil),
		views:       prometheus.NewDesc("destination_views", "Views that are held for streams.", []string{"cluster", "kind"}, nil),
	}
	if registerer == nil {
		return m, nil
	}
	if err := registerer.Register(m); err != nil {
		return nil, fmt.Errorf("register destination metrics: %w", err)
	}
	return m, nil
}

// join counts a stream of the key.
func (m *metrics) join(key groupKey) *group {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[key]
	if g == nil {
		g = &group{metrics: m, key: key}
		m.groups[key] = g
	}
	g.streams++
	return g
}

// leave counts the end of a stream.
func (g *group) leave() {
	g.metrics.mu.Lock()
	defer g.metrics.mu.Unlock()
	if g.streams--; g.streams == 0 {
		delete(g.metrics.groups, g.key)
	}
}

// observe counts s as an update unless a stream of the group has seen it
// before, or it is the group's first.
func (g *group) observe(s *snapshot) {
	if before := g.latest.Swap(s); before != nil && before != s {
		g.updates.Add(1)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.subscribers, m.updates, m.pods, m.exists, m.views} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	groups := make(map[*group]int, len(m.groups))
	for _, g := range m.groups {
		groups[g] = g.streams
	}
	m.mu.Unlock()
	for g, streams := range groups {
		labels := []string{g.key.cluster, g.key.namespace, g.key.service, strconv.Itoa(int(g.key.port)), g.key.hostname, g.key.node}
		pods, exists := 0, 0
		if s := g.latest.Load(); s != nil {
			pods = len(s.list)
			if s.exists {
				exists = 1
			}
		}
		out <- prometheus.MustNewConstMetric(m.subscribers, prometheus.GaugeValue, float64(streams), labels...)
		out <- prometheus.MustNewConstMetric(m.updates, prometheus.CounterValue, float64(g.updates.Load()), labels...)
		out <- prometheus.MustNewConstMetric(m.pods, prometheus.GaugeValue, float64(pods), labels...)
		out <- prometheus.MustNewConstMetric(m.exists, prometheus.GaugeValue, float64(exists), labels...)
	}
	for kind, held := range m.server.local.held() {
		out <- prometheus.MustNewConstMetric(m.views, prometheus.GaugeValue, float64(held), m.server.local.cluster, kind)
	}
}
