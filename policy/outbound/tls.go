package outbound

import (
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/opaque_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// tlsRoutes are the routes and, for an EgressNetwork, the default route after
// them (policy-outbound 3.3). They are built for at least one route.
func (b *builder) tlsRoutes() []*pb.TlsRoute {
	var out []*pb.TlsRoute
	for _, r := range b.routes[tlsRoutes] {
		out = append(out, &pb.TlsRoute{
			Metadata: r.metadata,
			Snis:     r.snis,
			Rules:    []*pb.TlsRoute_Rule{{Backends: b.tlsDistribution(r.rules[0].backends)}},
		})
	}
	if b.target.egress {
		out = append(out, b.defaultTLSRoute())
	}
	return out
}

func (b *builder) tlsDistribution(refs []backendRef) *pb.TlsRoute_Distribution {
	if len(refs) == 0 {
		return tlsFirstAvailable(b.defaultBackend(b.settings().penalty))
	}
	random := &pb.TlsRoute_Distribution_RandomAvailable{}
	for i := range refs {
		resolved := b.backend(&refs[i], nil)
		var filters []*pb.TlsRoute_Filter
		if resolved.failure != "" {
			filters = []*pb.TlsRoute_Filter{{Kind: &pb.TlsRoute_Filter_Invalid{Invalid: &opaque_route.Invalid{Message: resolved.failure}}}}
		}
		random.Backends = append(random.Backends, &pb.TlsRoute_WeightedRouteBackend{
			Backend: &pb.TlsRoute_RouteBackend{Backend: resolved.Backend, Filters: filters},
			Weight:  resolved.weight,
		})
	}
	return &pb.TlsRoute_Distribution{Kind: &pb.TlsRoute_Distribution_RandomAvailable_{RandomAvailable: random}}
}

// defaultTLSRoute is that of an EgressNetwork. Having no name, it matches everything.
func (b *builder) defaultTLSRoute() *pb.TlsRoute {
	rule := &pb.TlsRoute_Rule{Backends: tlsFirstAvailable(b.defaultBackend(nil))}
	if b.denies() {
		rule.Filters = []*pb.TlsRoute_Filter{{Kind: &pb.TlsRoute_Filter_Forbidden{Forbidden: &opaque_route.Forbidden{}}}}
	}
	return &pb.TlsRoute{Metadata: defaultMetadata("tls-egress-%s", b.action()), Rules: []*pb.TlsRoute_Rule{rule}}
}

func tlsFirstAvailable(backend *pb.Backend) *pb.TlsRoute_Distribution {
	return &pb.TlsRoute_Distribution{Kind: &pb.TlsRoute_Distribution_FirstAvailable_{
		FirstAvailable: &pb.TlsRoute_Distribution_FirstAvailable{Backends: []*pb.TlsRoute_RouteBackend{{Backend: backend}}},
	}}
}
