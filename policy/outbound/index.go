package outbound

import (
	"log/slog"
	"net/netip"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// former derives what policy needs from the cluster's objects. It holds what
// that depends on besides the objects. Immutable.
type former struct {
	log             *slog.Logger
	clusterNetworks []netip.Prefix
	opaquePorts     linkerd.PortSet
	// allowL5dHeaders lets clients set timeouts and retries by headers.
	allowL5dHeaders bool
}

// index is the derived kinds from which outbound policy is made: each object
// of the cluster in the form that policy uses.
type index struct {
	services       *state.Kind[*parent]
	egressNetworks *state.Kind[*parent]
	// routes are those of the five kinds that can be parents' routes.
	routes [5]*state.Kind[*route]
}

func newIndex(st *state.State, f *former) *index {
	return &index{
		services:       state.Derive(st, "outbound-service", state.Services, f.formService, parentsByIP),
		egressNetworks: state.Derive(st, "outbound-egressnetwork", state.EgressNetworks, f.formEgressNetwork),
		routes: [...]*state.Kind[*route]{
			state.Derive(st, "outbound-policy-httproute", state.PolicyHTTPRoutes, f.formPolicyHTTPRoute, producersByParent, consumers),
			state.Derive(st, "outbound-httproute", state.HTTPRoutes, f.formHTTPRoute, producersByParent, consumers),
			state.Derive(st, "outbound-grpcroute", state.GRPCRoutes, f.formGRPCRoute, producersByParent, consumers),
			state.Derive(st, "outbound-tlsroute", state.TLSRoutes, f.formTLSRoute, producersByParent, consumers),
			state.Derive(st, "outbound-tcproute", state.TCPRoutes, f.formTCPRoute, producersByParent, consumers),
		},
	}
}

// parent returns the parent, nil if there is none.
func (ix *index) parent(r *state.Reader, key parentKey) *parent {
	kind := ix.services
	if key.egress {
		kind = ix.egressNetworks
	}
	p, _ := state.Get(r, kind, key.namespace, key.name)
	return p
}
