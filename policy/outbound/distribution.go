package outbound

import (
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/opaque_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// distribution makes the messages of one protocol that say where a rule sends
// requests. The protocols have the same messages with types of their own.
type distribution[Filter, Backend, Distribution any] struct {
	filters func([]gateway.Filter) []*Filter
	// failure answers every request with a message.
	failure  func(message string) *Filter
	weighted func(backend *pb.Backend, filters []*Filter, weight uint32) *Backend
	first    func(*pb.Backend) *Distribution
	random   func([]*Backend) *Distribution
}

// of distributes requests over backends (policy-outbound 5.1), or sends them
// to the default one if there are none. Its load is that of a Service's
// balancer, and load is that of explicit backends.
func (d distribution[F, B, D]) of(b *builder, backends []gateway.Backend, defaultLoad, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *D {
	if len(backends) == 0 {
		return d.first(b.defaultBackend(defaultLoad))
	}
	var weighted []*B
	for i := range backends {
		message, failure := b.backend(&backends[i], load)
		var filters []*F
		if failure != "" {
			filters = []*F{d.failure(failure)}
		} else if d.filters != nil {
			filters = d.filters(backends[i].Filters)
		}
		weighted = append(weighted, d.weighted(message, filters, backends[i].Weight))
	}
	return d.random(weighted)
}

var httpDistribution = distribution[pb.HttpRoute_Filter, pb.HttpRoute_WeightedRouteBackend, pb.HttpRoute_Distribution]{
	filters: httpFilters,
	failure: func(message string) *pb.HttpRoute_Filter { return httpFailure(invalidStatus, message) },
	weighted: func(backend *pb.Backend, filters []*pb.HttpRoute_Filter, weight uint32) *pb.HttpRoute_WeightedRouteBackend {
		return &pb.HttpRoute_WeightedRouteBackend{Backend: &pb.HttpRoute_RouteBackend{Backend: backend, Filters: filters}, Weight: weight}
	},
	first: func(backend *pb.Backend) *pb.HttpRoute_Distribution {
		return &pb.HttpRoute_Distribution{Kind: &pb.HttpRoute_Distribution_FirstAvailable_{
			FirstAvailable: &pb.HttpRoute_Distribution_FirstAvailable{Backends: []*pb.HttpRoute_RouteBackend{{Backend: backend}}},
		}}
	},
	random: func(backends []*pb.HttpRoute_WeightedRouteBackend) *pb.HttpRoute_Distribution {
		return &pb.HttpRoute_Distribution{Kind: &pb.HttpRoute_Distribution_RandomAvailable_{
			RandomAvailable: &pb.HttpRoute_Distribution_RandomAvailable{Backends: backends},
		}}
	},
}

var grpcDistribution = distribution[pb.GrpcRoute_Filter, pb.GrpcRoute_WeightedRouteBackend, pb.GrpcRoute_Distribution]{
	filters: grpcFilters,
	failure: func(message string) *pb.GrpcRoute_Filter { return grpcFailure(invalidCode, message) },
	weighted: func(backend *pb.Backend, filters []*pb.GrpcRoute_Filter, weight uint32) *pb.GrpcRoute_WeightedRouteBackend {
		return &pb.GrpcRoute_WeightedRouteBackend{Backend: &pb.GrpcRoute_RouteBackend{Backend: backend, Filters: filters}, Weight: weight}
	},
	first: func(backend *pb.Backend) *pb.GrpcRoute_Distribution {
		return &pb.GrpcRoute_Distribution{Kind: &pb.GrpcRoute_Distribution_FirstAvailable_{
			FirstAvailable: &pb.GrpcRoute_Distribution_FirstAvailable{Backends: []*pb.GrpcRoute_RouteBackend{{Backend: backend}}},
		}}
	},
	random: func(backends []*pb.GrpcRoute_WeightedRouteBackend) *pb.GrpcRoute_Distribution {
		return &pb.GrpcRoute_Distribution{Kind: &pb.GrpcRoute_Distribution_RandomAvailable_{
			RandomAvailable: &pb.GrpcRoute_Distribution_RandomAvailable{Backends: backends},
		}}
	},
}

var tlsDistribution = distribution[pb.TlsRoute_Filter, pb.TlsRoute_WeightedRouteBackend, pb.TlsRoute_Distribution]{
	failure: func(message string) *pb.TlsRoute_Filter {
		return &pb.TlsRoute_Filter{Kind: &pb.TlsRoute_Filter_Invalid{Invalid: &opaque_route.Invalid{Message: message}}}
	},
	weighted: func(backend *pb.Backend, filters []*pb.TlsRoute_Filter, weight uint32) *pb.TlsRoute_WeightedRouteBackend {
		return &pb.TlsRoute_WeightedRouteBackend{Backend: &pb.TlsRoute_RouteBackend{Backend: backend, Filters: filters}, Weight: weight}
	},
	first: func(backend *pb.Backend) *pb.TlsRoute_Distribution {
		return &pb.TlsRoute_Distribution{Kind: &pb.TlsRoute_Distribution_FirstAvailable_{
			FirstAvailable: &pb.TlsRoute_Distribution_FirstAvailable{Backends: []*pb.TlsRoute_RouteBackend{{Backend: backend}}},
		}}
	},
	random: func(backends []*pb.TlsRoute_WeightedRouteBackend) *pb.TlsRoute_Distribution {
		return &pb.TlsRoute_Distribution{Kind: &pb.TlsRoute_Distribution_RandomAvailable_{
			RandomAvailable: &pb.TlsRoute_Distribution_RandomAvailable{Backends: backends},
		}}
	},
}

var opaqueDistribution = distribution[pb.OpaqueRoute_Filter, pb.OpaqueRoute_WeightedRouteBackend, pb.OpaqueRoute_Distribution]{
	failure: func(message string) *pb.OpaqueRoute_Filter {
		return &pb.OpaqueRoute_Filter{Kind: &pb.OpaqueRoute_Filter_Invalid{Invalid: &opaque_route.Invalid{Message: message}}}
	},
	weighted: func(backend *pb.Backend, filters []*pb.OpaqueRoute_Filter, weight uint32) *pb.OpaqueRoute_WeightedRouteBackend {
		return &pb.OpaqueRoute_WeightedRouteBackend{Backend: &pb.OpaqueRoute_RouteBackend{Backend: backend, Filters: filters}, Weight: weight}
	},
	first: func(backend *pb.Backend) *pb.OpaqueRoute_Distribution {
		return &pb.OpaqueRoute_Distribution{Kind: &pb.OpaqueRoute_Distribution_FirstAvailable_{
			FirstAvailable: &pb.OpaqueRoute_Distribution_FirstAvailable{Backends: []*pb.OpaqueRoute_RouteBackend{{Backend: backend}}},
		}}
	},
	random: func(backends []*pb.OpaqueRoute_WeightedRouteBackend) *pb.OpaqueRoute_Distribution {
		return &pb.OpaqueRoute_Distribution{Kind: &pb.OpaqueRoute_Distribution_RandomAvailable_{
			RandomAvailable: &pb.OpaqueRoute_Distribution_RandomAvailable{Backends: backends},
		}}
	},
}
