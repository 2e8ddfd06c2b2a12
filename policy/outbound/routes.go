package outbound

//lint:file-ignore SA1019 RequestTimeout is still sent, for proxies that know no other

import (
	"cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/opaque_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/tls_route"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

const (
	// deniedMessage is what clients of a denying EgressNetwork are told.
	deniedMessage = "traffic not allowed"
	deniedStatus  = 403
	deniedCode    = 7
	invalidStatus = 500
	// invalidCode is an HTTP status where a gRPC code belongs, as Linkerd has it.
	invalidCode = 500
)

// httpRoutes are the routes and, for an EgressNetwork or without routes, the
// default route after them (policy-outbound 3.3).
func (b *builder) httpRoutes() []*pb.HttpRoute {
	list := b.routes[gateway.HTTP]
	out := make([]*pb.HttpRoute, 0, len(list)+1)
	for _, r := range list {
		out = append(out, b.httpRoute(r))
	}
	if b.target.egress() || len(out) == 0 {
		out = append(out, b.defaultHTTPRoute())
	}
	return out
}

func (b *builder) httpRoute(r *gateway.Route) *pb.HttpRoute {
	load := b.settings().penalty
	out := &pb.HttpRoute{Metadata: routeMetadata(r), Hosts: r.Outbound.Hosts}
	for _, rule := range r.Outbound.Rules {
		timeouts := b.timeouts(rule.Timeouts)
		out.Rules = append(out.Rules, &pb.HttpRoute_Rule{
			Matches:                rule.HTTPMatches,
			Filters:                httpFilters(rule.Filters),
			Backends:               httpDistribution.of(b, rule.Backends, load, load),
			Retry:                  cmp.Or(r.Outbound.HTTPRetry, b.settings().httpRetry),
			Timeouts:               timeouts.Message(),
			RequestTimeout:         timeouts.Request.Message(),
			AllowL5DRequestHeaders: b.allowL5dHeaders,
		})
	}
	return out
}

// timeouts are those of a rule. What it says nothing of it has from its parent:
// all timeouts if it has none, and retries likewise (policy-outbound 6.5).
func (b *builder) timeouts(own settings.Timeouts) settings.Timeouts {
	if own.IsZero() {
		return b.settings().timeouts
	}
	return own
}

func (b *builder) defaultHTTPRoute() *pb.HttpRoute {
	timeouts := b.settings().timeouts
	rule := &pb.HttpRoute_Rule{
		Matches: []*http_route.HttpRouteMatch{{
			Path: &http_route.PathMatch{Kind: &http_route.PathMatch_Prefix{Prefix: "/"}},
		}},
		Backends:       httpDistribution.first(b.defaultBackend(b.settings().penalty)),
		Retry:          b.settings().httpRetry,
		Timeouts:       timeouts.Message(),
		RequestTimeout: timeouts.Request.Message(),
	}
	metadata := defaultMetadata("http")
	if b.target.egress() {
		metadata = defaultMetadata("http-egress-%s", b.action())
		if b.denies() {
			rule.Filters = []*pb.HttpRoute_Filter{httpFailure(deniedStatus, deniedMessage)}
		}
	}
	return &pb.HttpRoute{Metadata: metadata, Rules: []*pb.HttpRoute_Rule{rule}}
}

func httpFilters(filters []gateway.Filter) []*pb.HttpRoute_Filter {
	var out []*pb.HttpRoute_Filter
	for _, f := range filters {
		switch {
		case f.RequestHeaders != nil:
			out = append(out, &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: f.RequestHeaders}})
		case f.ResponseHeaders != nil:
			out = append(out, &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_ResponseHeaderModifier{ResponseHeaderModifier: f.ResponseHeaders}})
		case f.Redirect != nil:
			out = append(out, &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_Redirect{Redirect: f.Redirect}})
		}
	}
	return out
}

func httpFailure(status uint32, message string) *pb.HttpRoute_Filter {
	return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_FailureInjector{
		FailureInjector: &http_route.HttpFailureInjector{Status: status, Message: message},
	}}
}

// What follows for gRPC is as above for HTTP: the messages are of other types, which have no interface in common.

// grpcRoutes are the routes and, for an EgressNetwork, the default route after
// them (policy-outbound 3.3). They are built for at least one route.
func (b *builder) grpcRoutes() []*pb.GrpcRoute {
	var out []*pb.GrpcRoute
	for _, r := range b.routes[gateway.GRPC] {
		out = append(out, b.grpcRoute(r))
	}
	if b.target.egress() {
		out = append(out, b.defaultGRPCRoute())
	}
	return out
}

func (b *builder) grpcRoute(r *gateway.Route) *pb.GrpcRoute {
	load := b.settings().penalty
	out := &pb.GrpcRoute{Metadata: routeMetadata(r), Hosts: r.Outbound.Hosts}
	for _, rule := range r.Outbound.Rules {
		timeouts := b.timeouts(rule.Timeouts)
		out.Rules = append(out.Rules, &pb.GrpcRoute_Rule{
			Matches:                rule.GRPCMatches,
			Filters:                grpcFilters(rule.Filters),
			Backends:               grpcDistribution.of(b, rule.Backends, load, load),
			Retry:                  cmp.Or(r.Outbound.GRPCRetry, b.settings().grpcRetry),
			Timeouts:               timeouts.Message(),
			RequestTimeout:         timeouts.Request.Message(),
			AllowL5DRequestHeaders: b.allowL5dHeaders,
		})
	}
	return out
}

// defaultGRPCRoute is that of an EgressNetwork. Having no match, it matches everything.
func (b *builder) defaultGRPCRoute() *pb.GrpcRoute {
	timeouts := b.settings().timeouts
	rule := &pb.GrpcRoute_Rule{
		Backends:       grpcDistribution.first(b.defaultBackend(nil)),
		Retry:          b.settings().grpcRetry,
		Timeouts:       timeouts.Message(),
		RequestTimeout: timeouts.Request.Message(),
	}
	if b.denies() {
		rule.Filters = []*pb.GrpcRoute_Filter{grpcFailure(deniedCode, deniedMessage)}
	}
	return &pb.GrpcRoute{Metadata: defaultMetadata("grpc-egress-%s", b.action()), Rules: []*pb.GrpcRoute_Rule{rule}}
}

// grpcFilters converts filters. One that modifies responses is left out, since
// the message has no place for it (policy-outbound 5.1).
func grpcFilters(filters []gateway.Filter) []*pb.GrpcRoute_Filter {
	var out []*pb.GrpcRoute_Filter
	for _, f := range filters {
		if f.RequestHeaders != nil {
			out = append(out, &pb.GrpcRoute_Filter{Kind: &pb.GrpcRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: f.RequestHeaders}})
		}
	}
	return out
}

func grpcFailure(code uint32, message string) *pb.GrpcRoute_Filter {
	return &pb.GrpcRoute_Filter{Kind: &pb.GrpcRoute_Filter_FailureInjector{
		FailureInjector: &grpc_route.GrpcFailureInjector{Code: code, Message: message},
	}}
}

// tlsRoutes are the routes and, for an EgressNetwork, the default route after
// them (policy-outbound 3.3). They are built for at least one route.
func (b *builder) tlsRoutes() []*pb.TlsRoute {
	var out []*pb.TlsRoute
	for _, r := range b.routes[gateway.TLS] {
		backends := tlsDistribution.of(b, r.Outbound.Rules[0].Backends, b.settings().penalty, nil)
		out = append(out, &pb.TlsRoute{Metadata: routeMetadata(r), Snis: snis(r.Outbound.Hosts), Rules: []*pb.TlsRoute_Rule{{Backends: backends}}})
	}
	if b.target.egress() {
		out = append(out, b.defaultTLSRoute())
	}
	return out
}

// defaultTLSRoute is that of an EgressNetwork. Having no name, it matches everything.
func (b *builder) defaultTLSRoute() *pb.TlsRoute {
	rule := &pb.TlsRoute_Rule{Backends: tlsDistribution.first(b.defaultBackend(nil))}
	if b.denies() {
		rule.Filters = []*pb.TlsRoute_Filter{{Kind: &pb.TlsRoute_Filter_Forbidden{Forbidden: &opaque_route.Forbidden{}}}}
	}
	return &pb.TlsRoute{Metadata: defaultMetadata("tls-egress-%s", b.action()), Rules: []*pb.TlsRoute_Rule{rule}}
}

// snis are hosts as what TLS clients ask for.
func snis(hosts []*http_route.HostMatch) []*tls_route.SniMatch {
	var out []*tls_route.SniMatch
	for _, host := range hosts {
		sni := &tls_route.SniMatch{}
		switch match := host.Match.(type) {
		case *http_route.HostMatch_Exact:
			sni.Match = &tls_route.SniMatch_Exact{Exact: match.Exact}
		case *http_route.HostMatch_Suffix_:
			sni.Match = &tls_route.SniMatch_Suffix_{Suffix: &tls_route.SniMatch_Suffix{ReverseLabels: match.Suffix.ReverseLabels}}
		}
		out = append(out, sni)
	}
	return out
}

// tcpRoute converts a TCPRoute. load is that of the default backend; explicit
// backends never have one of their own (policy-outbound 7.3).
func (b *builder) tcpRoute(r *gateway.Route, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.OpaqueRoute {
	backends := opaqueDistribution.of(b, r.Outbound.Rules[0].Backends, load, nil)
	return &pb.OpaqueRoute{Metadata: routeMetadata(r), Rules: []*pb.OpaqueRoute_Rule{{Backends: backends}}}
}

func (b *builder) defaultOpaqueRoute(load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.OpaqueRoute {
	rule := &pb.OpaqueRoute_Rule{Backends: opaqueDistribution.first(b.defaultBackend(load))}
	metadata := defaultMetadata("opaq")
	if b.target.egress() {
		metadata = defaultMetadata("tcp-egress-%s", b.action())
		if b.denies() {
			rule.Filters = []*pb.OpaqueRoute_Filter{opaqueForbidden()}
		}
	}
	return &pb.OpaqueRoute{Metadata: metadata, Rules: []*pb.OpaqueRoute_Rule{rule}}
}

func opaqueForbidden() *pb.OpaqueRoute_Filter {
	return &pb.OpaqueRoute_Filter{Kind: &pb.OpaqueRoute_Filter_Forbidden{Forbidden: &opaque_route.Forbidden{}}}
}

func routeMetadata(r *gateway.Route) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{
		Group: r.Group, Kind: r.Kind, Namespace: r.GetNamespace(), Name: r.GetName(),
	}}}
}
