package outbound

import (
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

const (
	deniedCode = 7
	// invalidCode is an HTTP status where a gRPC code belongs, as Linkerd has it.
	invalidCode = 500
)

// grpcRoutes are the routes and, for an EgressNetwork, the default route after
// them (policy-outbound 3.3). They are built for at least one route.
func (b *builder) grpcRoutes() []*pb.GrpcRoute {
	var out []*pb.GrpcRoute
	for _, r := range b.routes[grpcRoutes] {
		out = append(out, b.grpcRoute(r))
	}
	if b.target.egress {
		out = append(out, b.defaultGRPCRoute())
	}
	return out
}

func (b *builder) grpcRoute(r *route) *pb.GrpcRoute {
	out := &pb.GrpcRoute{Metadata: r.metadata, Hosts: r.hosts}
	for i := range r.rules {
		source := &r.rules[i]
		converted := &pb.GrpcRoute_Rule{
			Matches:                source.grpc.Matches,
			Filters:                source.grpc.Filters,
			Backends:               b.grpcDistribution(source.backends),
			Retry:                  r.grpcRetry,
			AllowL5DRequestHeaders: source.grpc.AllowL5DRequestHeaders,
		}
		b.setGRPCDefaults(converted, source.timeouts)
		out.Rules = append(out.Rules, converted)
	}
	return out
}

// setGRPCDefaults is setHTTPDefaults for gRPC.
func (b *builder) setGRPCDefaults(rule *pb.GrpcRoute_Rule, own timeouts) {
	parent := b.settings()
	if own.isZero() {
		own = parent.timeouts
	}
	rule.Timeouts = own.message()
	//lint:ignore SA1019 still sent, for proxies that know no other
	rule.RequestTimeout = own.request.message()
	if rule.Retry == nil {
		rule.Retry = parent.grpcRetry
	}
}

func (b *builder) grpcDistribution(refs []backendRef) *pb.GrpcRoute_Distribution {
	load := b.settings().penalty
	if len(refs) == 0 {
		return grpcFirstAvailable(b.defaultBackend(load))
	}
	random := &pb.GrpcRoute_Distribution_RandomAvailable{}
	for i := range refs {
		resolved := b.backend(&refs[i], load)
		filters := resolved.ref.grpcFilters
		if resolved.failure != "" {
			filters = []*pb.GrpcRoute_Filter{grpcFailure(invalidCode, resolved.failure)}
		}
		random.Backends = append(random.Backends, &pb.GrpcRoute_WeightedRouteBackend{
			Backend: &pb.GrpcRoute_RouteBackend{Backend: resolved.Backend, Filters: filters},
			Weight:  resolved.weight,
		})
	}
	return &pb.GrpcRoute_Distribution{Kind: &pb.GrpcRoute_Distribution_RandomAvailable_{RandomAvailable: random}}
}

// defaultGRPCRoute is that of an EgressNetwork. Having no match, it matches everything.
func (b *builder) defaultGRPCRoute() *pb.GrpcRoute {
	rule := &pb.GrpcRoute_Rule{Backends: grpcFirstAvailable(b.defaultBackend(nil))}
	b.setGRPCDefaults(rule, timeouts{})
	if b.denies() {
		rule.Filters = []*pb.GrpcRoute_Filter{grpcFailure(deniedCode, deniedMessage)}
	}
	return &pb.GrpcRoute{Metadata: defaultMetadata("grpc-egress-%s", b.action()), Rules: []*pb.GrpcRoute_Rule{rule}}
}

func grpcFirstAvailable(backend *pb.Backend) *pb.GrpcRoute_Distribution {
	return &pb.GrpcRoute_Distribution{Kind: &pb.GrpcRoute_Distribution_FirstAvailable_{
		FirstAvailable: &pb.GrpcRoute_Distribution_FirstAvailable{Backends: []*pb.GrpcRoute_RouteBackend{{Backend: backend}}},
	}}
}

func grpcFailure(code uint32, message string) *pb.GrpcRoute_Filter {
	return &pb.GrpcRoute_Filter{Kind: &pb.GrpcRoute_Filter_FailureInjector{
		FailureInjector: &grpc_route.GrpcFailureInjector{Code: code, Message: message},
	}}
}
