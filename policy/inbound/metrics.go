package inbound

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// sizes exports how many objects of each kind the index holds, by namespace
// (policy-inbound 1.5). They are counted when they are asked for.
type sizes struct {
	state  *state.State
	counts []count
}

// count is one gauge.
type count struct {
	desc *prometheus.Desc
	add  func(r *state.Reader, byNamespace map[string]int)
}

var _ prometheus.Collector = (*sizes)(nil)

func newSizes(st *state.State, ix *index) *sizes {
	return &sizes{st, []count{
		newCount("meshtls_authentication", ix.meshTLS),
		newCount("network_authentication", ix.networks),
		newCount("pod", ix.pods),
		newCount("external_workload", ix.externalWorkloads),
		newCount("server", ix.servers),
		newCount("server_authorization", ix.serverAuthorizations),
		newCount("authorization_policy", ix.authorizationPolicies),
		newCountIf("http_route", (*gateway.Route).ForServers, ix.routes.PolicyHTTP, ix.routes.HTTP),
	}}
}

func newCount[D state.Object](name string, kind *state.Kind[D]) count {
	return newCountIf(name, func(D) bool { return true }, kind)
}

func newCountIf[D state.Object](name string, counts func(D) bool, kinds ...*state.Kind[D]) count {
	return count{
		desc: prometheus.NewDesc("inbound_index_"+name+"_index_size", "Number of objects in the index of inbound policy.", []string{"namespace"}, nil),
		add: func(r *state.Reader, byNamespace map[string]int) {
			for _, kind := range kinds {
				for obj := range state.All(r, kind) {
					if counts(obj) {
						byNamespace[obj.GetNamespace()]++
					}
				}
			}
		},
	}
}

func (s *sizes) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range s.counts {
		descs <- c.desc
	}
}

func (s *sizes) Collect(metrics chan<- prometheus.Metric) {
	r := s.state.Snapshot().Reader()
	for _, c := range s.counts {
		byNamespace := map[string]int{}
		c.add(r, byNamespace)
		for namespace, n := range byNamespace {
			metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), namespace)
		}
	}
}
