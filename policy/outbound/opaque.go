package outbound

import (
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/opaque_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// tcpRoute converts a TCPRoute. load is that of the default backend; explicit
// backends never have one of their own (policy-outbound 7.3).
func (b *builder) tcpRoute(r *route, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.OpaqueRoute {
	refs := r.rules[0].backends
	if len(refs) == 0 {
		return opaqueRoute(r, opaqueFirstAvailable(b.defaultBackend(load)))
	}
	random := &pb.OpaqueRoute_Distribution_RandomAvailable{}
	for i := range refs {
		resolved := b.backend(&refs[i], nil)
		var filters []*pb.OpaqueRoute_Filter
		if resolved.failure != "" {
			filters = []*pb.OpaqueRoute_Filter{{Kind: &pb.OpaqueRoute_Filter_Invalid{Invalid: &opaque_route.Invalid{Message: resolved.failure}}}}
		}
		random.Backends = append(random.Backends, &pb.OpaqueRoute_WeightedRouteBackend{
			Backend: &pb.OpaqueRoute_RouteBackend{Backend: resolved.Backend, Filters: filters},
			Weight:  resolved.weight,
		})
	}
	return opaqueRoute(r, &pb.OpaqueRoute_Distribution{Kind: &pb.OpaqueRoute_Distribution_RandomAvailable_{RandomAvailable: random}})
}

func opaqueRoute(r *route, backends *pb.OpaqueRoute_Distribution) *pb.OpaqueRoute {
	return &pb.OpaqueRoute{Metadata: r.metadata, Rules: []*pb.OpaqueRoute_Rule{{Backends: backends}}}
}

func (b *builder) defaultOpaqueRoute(load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.OpaqueRoute {
	rule := &pb.OpaqueRoute_Rule{Backends: opaqueFirstAvailable(b.defaultBackend(load))}
	metadata := defaultMetadata("opaq")
	if b.target.egress {
		metadata = defaultMetadata("tcp-egress-%s", b.action())
		if b.denies() {
			rule.Filters = []*pb.OpaqueRoute_Filter{opaqueForbidden()}
		}
	}
	return &pb.OpaqueRoute{Metadata: metadata, Rules: []*pb.OpaqueRoute_Rule{rule}}
}

func opaqueFirstAvailable(backend *pb.Backend) *pb.OpaqueRoute_Distribution {
	return &pb.OpaqueRoute_Distribution{Kind: &pb.OpaqueRoute_Distribution_FirstAvailable_{
		FirstAvailable: &pb.OpaqueRoute_Distribution_FirstAvailable{Backends: []*pb.OpaqueRoute_RouteBackend{{Backend: backend}}},
	}}
}

func opaqueForbidden() *pb.OpaqueRoute_Filter {
	return &pb.OpaqueRoute_Filter{Kind: &pb.OpaqueRoute_Filter_Forbidden{Forbidden: &opaque_route.Forbidden{}}}
}
