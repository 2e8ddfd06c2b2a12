package inbound

import (
	"slices"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// attachedRoutes are the routes of some kinds that a Server has, in order.
func attachedRoutes(r *state.Reader, s *server, kinds ...*state.Kind[*gateway.Route]) []*gateway.Route {
	var routes []*gateway.Route
	for _, kind := range kinds {
		routes = state.AppendBy(routes, r, kind, gateway.ByServer, s.target)
	}
	slices.SortFunc(routes, gateway.CompareInbound)
	return routes
}

func httpRoute(r *gateway.Route, authorizations []*pb.Authz) *pb.HttpRoute {
	out := &pb.HttpRoute{Metadata: resourceMetadata(r.Group, r.Kind, r.GetName()), Hosts: r.Inbound.Hosts, Authorizations: authorizations}
	for _, rule := range r.Inbound.Rules {
		converted := &pb.HttpRoute_Rule{Matches: rule.HTTPMatches}
		for _, f := range rule.Filters {
			// One that modifies responses has no place in the message (policy-inbound 8.5).
			switch {
			case f.RequestHeaders != nil:
				converted.Filters = append(converted.Filters, &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: f.RequestHeaders}})
			case f.Redirect != nil:
				converted.Filters = append(converted.Filters, &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_Redirect{Redirect: f.Redirect}})
			}
		}
		out.Rules = append(out.Rules, converted)
	}
	return out
}

func grpcRoute(r *gateway.Route, authorizations []*pb.Authz) *pb.GrpcRoute {
	out := &pb.GrpcRoute{Metadata: resourceMetadata(r.Group, r.Kind, r.GetName()), Hosts: r.Inbound.Hosts, Authorizations: authorizations}
	for _, rule := range r.Inbound.Rules {
		converted := &pb.GrpcRoute_Rule{Matches: rule.GRPCMatches}
		for _, f := range rule.Filters {
			if f.RequestHeaders != nil {
				converted.Filters = append(converted.Filters, &pb.GrpcRoute_Filter{Kind: &pb.GrpcRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: f.RequestHeaders}})
			}
		}
		out.Rules = append(out.Rules, converted)
	}
	return out
}
