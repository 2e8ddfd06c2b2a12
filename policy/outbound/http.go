package outbound

import (
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

const (
	// deniedMessage is what clients of a denying EgressNetwork are told.
	deniedMessage = "traffic not allowed"
	deniedStatus  = 403
	invalidStatus = 500
)

// httpRoutes are the routes and, for an EgressNetwork or without routes, the
// default route after them (policy-outbound 3.3).
func (b *builder) httpRoutes() []*pb.HttpRoute {
	list := b.routes[httpRoutes]
	out := make([]*pb.HttpRoute, 0, len(list)+1)
	for _, r := range list {
		out = append(out, b.httpRoute(r))
	}
	if b.target.egress || len(out) == 0 {
		out = append(out, b.defaultHTTPRoute())
	}
	return out
}

func (b *builder) httpRoute(r *route) *pb.HttpRoute {
	out := &pb.HttpRoute{Metadata: r.metadata, Hosts: r.hosts}
	for i := range r.rules {
		source := &r.rules[i]
		converted := &pb.HttpRoute_Rule{
			Matches:                source.http.Matches,
			Filters:                source.http.Filters,
			Backends:               b.httpDistribution(source.backends),
			Retry:                  r.httpRetry,
			AllowL5DRequestHeaders: source.http.AllowL5DRequestHeaders,
		}
		b.setHTTPDefaults(converted, source.timeouts)
		out.Rules = append(out.Rules, converted)
	}
	return out
}

// setHTTPDefaults sets the timeouts, and what the rule takes from the parent:
// retries if it has none, timeouts if it has not one (policy-outbound 6.5).
func (b *builder) setHTTPDefaults(rule *pb.HttpRoute_Rule, own timeouts) {
	parent := b.settings()
	if own.isZero() {
		own = parent.timeouts
	}
	rule.Timeouts = own.message()
	//lint:ignore SA1019 still sent, for proxies that know no other
	rule.RequestTimeout = own.request.message()
	if rule.Retry == nil {
		rule.Retry = parent.httpRetry
	}
}

func (b *builder) httpDistribution(refs []backendRef) *pb.HttpRoute_Distribution {
	load := b.settings().penalty
	if len(refs) == 0 {
		return httpFirstAvailable(b.defaultBackend(load))
	}
	random := &pb.HttpRoute_Distribution_RandomAvailable{}
	for i := range refs {
		resolved := b.backend(&refs[i], load)
		filters := resolved.ref.httpFilters
		if resolved.failure != "" {
			filters = []*pb.HttpRoute_Filter{httpFailure(invalidStatus, resolved.failure)}
		}
		random.Backends = append(random.Backends, &pb.HttpRoute_WeightedRouteBackend{
			Backend: &pb.HttpRoute_RouteBackend{Backend: resolved.Backend, Filters: filters},
			Weight:  resolved.weight,
		})
	}
	return &pb.HttpRoute_Distribution{Kind: &pb.HttpRoute_Distribution_RandomAvailable_{RandomAvailable: random}}
}

func (b *builder) defaultHTTPRoute() *pb.HttpRoute {
	rule := &pb.HttpRoute_Rule{
		Matches: []*http_route.HttpRouteMatch{{
			Path: &http_route.PathMatch{Kind: &http_route.PathMatch_Prefix{Prefix: "/"}},
		}},
		Backends: httpFirstAvailable(b.defaultBackend(b.settings().penalty)),
	}
	b.setHTTPDefaults(rule, timeouts{})
	metadata := defaultMetadata("http")
	if b.target.egress {
		metadata = defaultMetadata("http-egress-%s", b.action())
		if b.denies() {
			rule.Filters = []*pb.HttpRoute_Filter{httpFailure(deniedStatus, deniedMessage)}
		}
	}
	return &pb.HttpRoute{Metadata: metadata, Rules: []*pb.HttpRoute_Rule{rule}}
}

func httpFirstAvailable(backend *pb.Backend) *pb.HttpRoute_Distribution {
	return &pb.HttpRoute_Distribution{Kind: &pb.HttpRoute_Distribution_FirstAvailable_{
		FirstAvailable: &pb.HttpRoute_Distribution_FirstAvailable{Backends: []*pb.HttpRoute_RouteBackend{{Backend: backend}}},
	}}
}

func httpFailure(status uint32, message string) *pb.HttpRoute_Filter {
	return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_FailureInjector{
		FailureInjector: &http_route.HttpFailureInjector{Status: status, Message: message},
	}}
}
