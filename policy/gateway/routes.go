package gateway

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Indexes of each kind of routes.
var (
	// ByServer has the Servers on which a route is in force.
	ByServer = state.NewIndex(0, "server", func(r *Route) []string {
		var keys []string
		if r.Inbound != nil {
			for _, a := range r.Inbound.Attached {
				keys = append(keys, a.Reference.String())
			}
		}
		return keys
	})
	// Producers has the parents in the route's own namespace, to all of whose
	// clients the route applies (policy-outbound 4.1).
	Producers = state.NewIndex(1, "producer", func(r *Route) []string {
		var keys []string
		if r.Outbound != nil {
			for _, a := range r.Outbound.Attached {
				if key := a.Reference.String(); a.Namespace == r.GetNamespace() && !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		return keys
	})
	// Consumers has, at one key, the routes that are attached to a parent in
	// another namespace. They apply to clients of their own namespace alone.
	Consumers = state.NewIndex(2, "consumer", func(r *Route) []string {
		if r.Outbound != nil {
			for _, a := range r.Outbound.Attached {
				if a.Namespace != r.GetNamespace() {
					return []string{ConsumersKey}
				}
			}
		}
		return nil
	})
	// ByAttachment has each parent with its port, accepted or not.
	ByAttachment = state.NewIndex(3, "attachment", func(r *Route) []string {
		keys := make([]string, len(r.Parents))
		for i, p := range r.Parents {
			keys[i] = p.Attachment.String()
		}
		return keys
	})
)

// ConsumersKey is the key of all routes in the index Consumers.
const ConsumersKey = "consumer"

// Routes are the kinds of routes of a State, each route read once.
type Routes struct {
	PolicyHTTP, HTTP, GRPC, TLS, TCP *state.Kind[*Route]
}

// New adds the kinds to the State, which therefore must not run or be read yet.
func New(st *state.State) *Routes {
	return &Routes{
		PolicyHTTP: derive(st, state.PolicyHTTPRoutes, func(route *policyv1beta3.HTTPRoute) source {
			return httpSource(apis.Group, true, route.Spec, route.Status)
		}),
		HTTP: derive(st, state.HTTPRoutes, func(route *gatewayv1.HTTPRoute) source {
			return httpSource(apis.GatewayGroup, false, route.Spec, route.Status)
		}),
		GRPC: derive(st, state.GRPCRoutes, func(route *gatewayv1.GRPCRoute) source {
			return grpcSource(apis.GatewayGroup, route.Spec, route.Status)
		}),
		TLS: derive(st, state.TLSRoutes, func(route *gatewayv1alpha2.TLSRoute) source {
			return tlsSource(apis.GatewayGroup, route.Spec, route.Status)
		}),
		TCP: derive(st, state.TCPRoutes, func(route *gatewayv1alpha2.TCPRoute) source {
			return tcpSource(apis.GatewayGroup, route.Spec, route.Status)
		}),
	}
}

func derive[T state.Object](st *state.State, kind *state.Kind[T], toSource func(T) source) *state.Kind[*Route] {
	return state.DeriveJudging(st, "route-"+kind.Name, kind, func(object T, previous *Route) (*Route, []problems.Problem) {
		return readRoute(object, toSource(object), previous)
	}, ByServer, Producers, Consumers, ByAttachment)
}

// All are the kinds, in the order in which they are listed.
func (r *Routes) All() []*state.Kind[*Route] {
	return []*state.Kind[*Route]{r.PolicyHTTP, r.HTTP, r.GRPC, r.TLS, r.TCP}
}
