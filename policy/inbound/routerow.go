package inbound

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/routes"
)

// route is an HTTPRoute of either group or a GRPCRoute that Servers have for
// a parent (policy-inbound 8). Immutable.
type route struct {
	metav1.Object
	// problem says why the present version cannot be used. The route is then
	// the last one that could, or attached to nothing.
	problem string

	group, kind string
	created     time.Time
	// servers are the index keys of the Servers that the route is attached to.
	servers []string
	// target is the index key of policies for the route.
	target string
	// http or grpc is the route's message without authorizations.
	http *pb.HttpRoute
	grpc *pb.GrpcRoute
}

// routesByServer is the index of each of the three kinds of routes.
var routesByServer = state.NewIndex(0, "server", func(r *route) []string { return r.servers })

func (f *former) formPolicyHTTPRoute(source *policyv1beta3.HTTPRoute, previous *route) *route {
	return f.formHTTP(apis.Group, source, source.Spec, source.Status, previous)
}

func (f *former) formHTTPRoute(source *gatewayv1.HTTPRoute, previous *route) *route {
	return f.formHTTP(apis.GatewayGroup, source, source.Spec, source.Status, previous)
}

func (f *former) formHTTP(group string, source metav1.Object, spec gatewayv1.HTTPRouteSpec, status gatewayv1.HTTPRouteStatus, previous *route) *route {
	out := newRoute(group, "HTTPRoute", source, spec.CommonRouteSpec, status.RouteStatus)
	if out == nil {
		return nil
	}
	out.http = &pb.HttpRoute{Metadata: resourceMetadata(group, out.kind, source.GetName()), Hosts: routes.Hosts(spec.Hostnames)}
	for i, rule := range spec.Rules {
		converted, err := httpRule(rule, group == apis.Group)
		if err != nil {
			return f.unusableRoute("HTTPRoute."+group, source, fmt.Errorf("spec.rules[%d].%w", i, err), previous)
		}
		out.http.Rules = append(out.http.Rules, converted)
	}
	return out
}

func (f *former) formGRPCRoute(source *gatewayv1.GRPCRoute, previous *route) *route {
	out := newRoute(apis.GatewayGroup, "GRPCRoute", source, source.Spec.CommonRouteSpec, source.Status.RouteStatus)
	if out == nil {
		return nil
	}
	out.grpc = &pb.GrpcRoute{Metadata: resourceMetadata(out.group, out.kind, source.Name), Hosts: routes.Hosts(source.Spec.Hostnames)}
	for i, rule := range source.Spec.Rules {
		converted, err := grpcRule(rule)
		if err != nil {
			return f.unusableRoute("GRPCRoute", source, fmt.Errorf("spec.rules[%d].%w", i, err), previous)
		}
		out.grpc.Rules = append(out.grpc.Rules, converted)
	}
	return out
}

// unusableRoute is unusable for a route, whose status is written once it is
// there: what is wrong is said once, and again only when something else is.
func (f *former) unusableRoute(kind string, source metav1.Object, err error, previous *route) *route {
	if previous != nil && previous.GetUID() == source.GetUID() && previous.problem == err.Error() {
		return previous
	}
	if previous != nil && previous.http == nil && previous.grpc == nil {
		previous = nil // that one could not be used either
	}
	kept := &route{Object: source}
	if last := unusable(f, kind, source, err, previous); last != nil {
		copied := *last
		kept = &copied
	}
	kept.problem = err.Error()
	return kept
}

// newRoute returns a route without its message, nil when it has no Server for
// a parent or refers to one in a way that inbound policy does not know.
func newRoute(group, kind string, source metav1.Object, spec gatewayv1.CommonRouteSpec, status gatewayv1.RouteStatus) *route {
	servers := parentServers(source.GetNamespace(), spec.ParentRefs)
	if len(servers) == 0 {
		return nil
	}
	out := &route{
		Object:  source,
		group:   group,
		kind:    kind,
		created: source.GetCreationTimestamp().Time,
		target:  routeTarget(source.GetNamespace(), group, kind, source.GetName()),
	}
	for _, name := range servers {
		if accepted(status.Parents, name) {
			out.servers = append(out.servers, serverTarget(source.GetNamespace(), name))
		}
	}
	return out
}

// parentServers are the names of the Servers among the parents, each once
// (policy-inbound 8.1). A Server of another namespace, or one with a port or
// a section, disqualifies the whole route.
func parentServers(namespace string, refs []gatewayv1.ParentReference) []string {
	var names []string
	for _, ref := range refs {
		if ref.Group == nil || ref.Kind == nil || ref.Name == "" ||
			!strings.EqualFold(string(*ref.Group), apis.Group) || !strings.EqualFold(string(*ref.Kind), "Server") {
			continue
		}
		if ref.Namespace != nil && string(*ref.Namespace) != namespace || ref.Port != nil || ref.SectionName != nil {
			return nil
		}
		if !slices.Contains(names, string(ref.Name)) {
			names = append(names, string(ref.Name))
		}
	}
	return names
}

// accepted tells whether the policy controller has accepted the Server for a parent.
func accepted(parents []gatewayv1.RouteParentStatus, server string) bool {
	for _, parent := range parents {
		if parent.ControllerName != linkerd.PolicyControllerName || string(parent.ParentRef.Name) != server ||
			parent.ParentRef.Kind == nil || *parent.ParentRef.Kind != "Server" {
			continue
		}
		for _, condition := range parent.Conditions {
			if condition.Type == string(gatewayv1.RouteConditionAccepted) && condition.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// before orders routes in a message (policy-inbound 8.3).
func (r *route) before(other *route) int {
	if r.created.IsZero() != other.created.IsZero() {
		if r.created.IsZero() {
			return 1
		}
		return -1
	}
	if c := r.created.Compare(other.created); c != 0 {
		return c
	}
	return slices.Compare([]string{r.GetName(), r.group, r.kind}, []string{other.GetName(), other.group, other.kind})
}

func httpRule(rule gatewayv1.HTTPRouteRule, tagged bool) (*pb.HttpRoute_Rule, error) {
	matches, err := routes.HTTPMatches(rule.Matches)
	if err != nil {
		return nil, err
	}
	out := &pb.HttpRoute_Rule{Matches: matches}
	for i, filter := range rule.Filters {
		converted, err := httpFilter(filter, tagged)
		if err != nil {
			return nil, fmt.Errorf("filters[%d]: %w", i, err)
		}
		if converted != nil {
			out.Filters = append(out.Filters, converted)
		}
	}
	return out, nil
}

// httpFilter converts a filter, to nil if it has no effect on requests.
func httpFilter(filter gatewayv1.HTTPRouteFilter, tagged bool) (*pb.HttpRoute_Filter, error) {
	switch routes.HTTPFilterType(filter, tagged) {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		modifier, err := routes.RequestHeaderModifier(filter.RequestHeaderModifier)
		return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: modifier}}, err
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		_, err := routes.ResponseHeaderModifier(filter.ResponseHeaderModifier)
		return nil, err
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		redirect, err := routes.RequestRedirect(filter.RequestRedirect)
		return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_Redirect{Redirect: redirect}}, err
	}
	return nil, fmt.Errorf("filter %s is not supported on a Server", filter.Type)
}

func grpcRule(rule gatewayv1.GRPCRouteRule) (*pb.GrpcRoute_Rule, error) {
	matches, err := routes.GRPCMatches(rule.Matches)
	if err != nil {
		return nil, err
	}
	out := &pb.GrpcRoute_Rule{Matches: matches}
	for i, filter := range rule.Filters {
		switch {
		case filter.RequestHeaderModifier != nil:
			modifier, err := routes.RequestHeaderModifier(filter.RequestHeaderModifier)
			if err != nil {
				return nil, fmt.Errorf("filters[%d]: %w", i, err)
			}
			out.Filters = append(out.Filters, &pb.GrpcRoute_Filter{Kind: &pb.GrpcRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: modifier}})
		case filter.ResponseHeaderModifier != nil:
			if _, err := routes.ResponseHeaderModifier(filter.ResponseHeaderModifier); err != nil {
				return nil, fmt.Errorf("filters[%d]: %w", i, err)
			}
		default:
			return nil, fmt.Errorf("filters[%d]: filter %s is not supported on a Server", i, filter.Type)
		}
	}
	return out, nil
}
