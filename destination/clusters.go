package destination

import (
	"sync"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// Links tells which clusters are linked.
type Links interface {
	// Lookup returns the linked cluster of that name, or nil. The channel is
	// closed when the answer may be another.
	Lookup(cluster string) (*Link, <-chan struct{})
}

// Link is a linked cluster. Make one per link and keep it: streams tell links
// apart by their pointers, and the views of a cluster live as long as its Link.
type Link struct {
	// Cluster is the link's name.
	Cluster string
	// TrustDomain is that of identities in the cluster.
	TrustDomain string
	// ClusterDomain is that of names in the cluster.
	ClusterDomain string

	State *state.State
	Graph *view.Graph

	once  sync.Once
	views *clusterViews
}

// noLinks is Links of a cluster that is on its own.
type noLinks struct{}

func (noLinks) Lookup(string) (*Link, <-chan struct{}) { return nil, nil }

// viewsOf returns the views of a linked cluster, made at first use. A Link
// serves one Server.
func (s *Server) viewsOf(link *Link) *clusterViews {
	link.once.Do(func() {
		link.views = newClusterViews(clusterViewsConfig{
			cluster:        link.Cluster,
			state:          link.State,
			graph:          link.Graph,
			mesh:           s.mesh,
			trustDomain:    link.TrustDomain,
			remote:         true,
			endpointSlices: s.config.EnableEndpointSlices,
			ipv6:           s.config.EnableIPv6,
		})
	})
	return link.views
}
