package outbound

import (
	"net/netip"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// deriver derives the parents from the cluster's objects. It holds what they
// depend on besides the objects. Immutable.
type deriver struct {
	clusterNetworks []netip.Prefix
	opaquePorts     linkerd.PortSet
}

// index is the derived kinds from which outbound policy is made.
type index struct {
	services       *state.Kind[*parent]
	egressNetworks *state.Kind[*parent]
	routes         *gateway.Routes
}

func newIndex(st *state.State, d *deriver, routes *gateway.Routes) *index {
	return &index{
		services:       state.DeriveJudging(st, "outbound-service", state.Services, d.service, parentsByIP),
		egressNetworks: state.DeriveJudging(st, "outbound-egressnetwork", state.EgressNetworks, d.egressNetwork),
		routes:         routes,
	}
}

// parent returns the parent, nil if there is none.
func (ix *index) parent(r *state.Reader, key gateway.Reference) *parent {
	kind := ix.services
	if key.Kind == gateway.EgressNetwork {
		kind = ix.egressNetworks
	}
	p, _ := state.Get(r, kind, key.Namespace, key.Name)
	return p
}
