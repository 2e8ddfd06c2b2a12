package outbound

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// sizes exports the sizes of the index (policy-outbound, metrics). They are
// counted when they are asked for.
type sizes struct {
	state *state.State
	index *index

	services, parents, routes, portRoutes *prometheus.Desc
}

var _ prometheus.Collector = (*sizes)(nil)

func newSizes(st *state.State, ix *index) *sizes {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outbound_index_"+name+"_index_size", help, labels, nil)
	}
	return &sizes{
		state:      st,
		index:      ix,
		services:   desc("service", "Number of cluster IPs in the index of outbound policy."),
		parents:    desc("service_info", "Number of Services and EgressNetworks in the index of outbound policy."),
		routes:     desc("service_route", "Number of Services with HTTPRoutes for all their ports.", "namespace"),
		portRoutes: desc("service_port_route", "Number of ports with routes.", "namespace"),
	}
}

func (s *sizes) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{s.services, s.parents, s.routes, s.portRoutes} {
		descs <- desc
	}
}

func (s *sizes) Collect(metrics chan<- prometheus.Metric) {
	r := s.state.Snapshot().Reader()
	ips := map[string]bool{}
	parents := 0
	for service := range state.All(r, s.index.services) {
		parents++
		for _, ip := range service.ips {
			ips[ip] = true
		}
	}
	for range state.All(r, s.index.egressNetworks) {
		parents++
	}
	metrics <- prometheus.MustNewConstMetric(s.services, prometheus.GaugeValue, float64(len(ips)))
	metrics <- prometheus.MustNewConstMetric(s.parents, prometheus.GaugeValue, float64(parents))

	all, ports := map[gateway.Attachment]bool{}, map[gateway.Attachment]bool{}
	for _, kind := range s.index.routes.All() {
		for route := range state.All(r, kind) {
			if route.Outbound == nil {
				continue
			}
			for _, a := range route.Outbound.Attached {
				if a.Port != 0 {
					ports[a] = true
				} else if route.Protocol == gateway.HTTP {
					all[a] = true
				}
			}
		}
	}
	countByNamespace(metrics, s.routes, all)
	countByNamespace(metrics, s.portRoutes, ports)
}

func countByNamespace(metrics chan<- prometheus.Metric, desc *prometheus.Desc, attachments map[gateway.Attachment]bool) {
	counts := map[string]int{}
	for a := range attachments {
		counts[a.Namespace]++
	}
	for namespace, n := range counts {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), namespace)
	}
}
