package destination

import (
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// clusterViewsConfig is what the views of one cluster depend on.
type clusterViewsConfig struct {
	cluster     string
	state       *state.State
	graph       *view.Graph
	mesh        *mesh
	trustDomain string
	// remote is set for linked clusters: their endpoints are not filtered by node or zone.
	remote         bool
	endpointSlices bool
	ipv6           bool
}

// clusterViews are the views over one cluster, from Servers to what clients see.
type clusterViews struct {
	clusterViewsConfig
	suffixes [localities][]byte

	servers *view.Set[string, *opaqueServers]
	ports   *view.Set[portKey, *endpoints]
	seen    *view.Set[clientKey, *published]
}

func newClusterViews(config clusterViewsConfig) *clusterViews {
	v := &clusterViews{clusterViewsConfig: config}
	for l := range localities {
		v.suffixes[l] = clientSuffix(l, config.mesh.zoneWeights)
	}
	v.servers = newOpaqueServerSet(config.graph)
	v.ports = view.NewSet(config.graph, "destination/endpoints", v.translate, func(a, b *endpoints) bool { return a == b })
	v.seen = view.NewSet(config.graph, "destination/clients", v.filter, func(a, b *published) bool { return a == b })
	return v
}

// held returns how many views of each kind are held: none once no stream is open (B19).
func (v *clusterViews) held() map[string]int {
	return map[string]int{"servers": v.servers.Held(), "ports": v.ports.Held(), "clients": v.seen.Held()}
}
