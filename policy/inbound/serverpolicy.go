package inbound

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// detectTimeout is how long proxies wait for a first byte that tells the protocol.
const detectTimeout = 10 * time.Second

// portPolicy is what goes into the answer for a port, apart from the probes that
// its workload has.
type portPolicy struct {
	protocol apis.ProxyProtocol
	// server is the name of the Server, "" for a port without one, which has
	// the policy of that name.
	server         string
	policy         policyName
	authorizations []*authz
	// httpRoutes or grpcRoutes are the attached routes; without any, the
	// default route is used.
	httpRoutes []*pb.HttpRoute
	grpcRoutes []*pb.GrpcRoute
	rateLimit  *pb.HttpLocalRateLimit
}

// isPlain tells whether nothing is attached to the port but authorizations.
func (p *portPolicy) isPlain() bool {
	return len(p.httpRoutes) == 0 && len(p.grpcRoutes) == 0 && p.rateLimit == nil
}

func (p *portPolicy) labels() map[string]string {
	if p.server == "" {
		return defaultLabels(string(p.policy))
	}
	return map[string]string{"group": apis.Group, "kind": "server", "name": p.server}
}

// isHTTP tells whether HTTP can be spoken, and so routes of it apply. Without
// any of its own, a port has a route for probes (policy-inbound 8.2).
func (p *portPolicy) isHTTP() bool {
	switch p.protocol {
	case apis.ProxyProtocolGRPC, apis.ProxyProtocolOpaque, apis.ProxyProtocolTLS:
		return false
	}
	return true
}

// message is the answer without the authorizations, with the probes' route if
// there is one.
func (m *messages) message(p *portPolicy, probes *pb.HttpRoute) *pb.Server {
	server := &pb.Server{Labels: p.labels()}
	routes := p.httpRoutes
	if len(routes) == 0 {
		routes = []*pb.HttpRoute{m.httpDefault}
		if probes != nil {
			routes = append(routes, probes)
		}
	}
	switch p.protocol {
	case apis.ProxyProtocolHTTP1:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Http1_{Http1: &pb.ProxyProtocol_Http1{Routes: routes, LocalRateLimit: p.rateLimit}}}
	case apis.ProxyProtocolHTTP2:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Http2_{Http2: &pb.ProxyProtocol_Http2{Routes: routes, LocalRateLimit: p.rateLimit}}}
	case apis.ProxyProtocolGRPC:
		grpcRoutes := p.grpcRoutes
		if len(grpcRoutes) == 0 {
			grpcRoutes = []*pb.GrpcRoute{m.grpcDefault}
		}
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Grpc_{Grpc: &pb.ProxyProtocol_Grpc{Routes: grpcRoutes}}}
	case apis.ProxyProtocolOpaque:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Opaque_{Opaque: &pb.ProxyProtocol_Opaque{}}}
	case apis.ProxyProtocolTLS:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Tls_{Tls: &pb.ProxyProtocol_Tls{}}}
	default:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Detect_{Detect: &pb.ProxyProtocol_Detect{
			Timeout: durationpb.New(detectTimeout), HttpRoutes: routes, HttpLocalRateLimit: p.rateLimit,
		}}}
	}
	return server
}

// defaultPortPolicy is that of a port without a Server (policy-inbound 5).
func (m *messages) defaultPortPolicy(name policyName, opaque bool) *portPolicy {
	p := &portPolicy{policy: name, authorizations: m.authorize(nil, name)}
	if opaque {
		p.protocol = apis.ProxyProtocolOpaque
	}
	return p
}

// serverPortPolicy is that of a Server's ports.
func (ix *index) serverPortPolicy(r *view.Reader, s *server) *portPolicy {
	p := &portPolicy{
		protocol:       s.protocol,
		server:         s.GetName(),
		authorizations: ix.serverAuthorizationsOf(r, s),
	}
	p.authorizations = ix.messages.authorize(p.authorizations, s.access)
	switch s.protocol {
	case apis.ProxyProtocolOpaque, apis.ProxyProtocolTLS:
	case apis.ProxyProtocolGRPC:
		for _, route := range attachedRoutes(r.Reader, s, ix.routes.GRPC) {
			p.grpcRoutes = append(p.grpcRoutes, grpcRoute(route, ix.routeAuthorizations(r, route)))
		}
	default:
		for _, route := range attachedRoutes(r.Reader, s, ix.routes.PolicyHTTP, ix.routes.HTTP) {
			p.httpRoutes = append(p.httpRoutes, httpRoute(route, ix.routeAuthorizations(r, route)))
		}
		if limits := state.AppendBy(nil, r.Reader, ix.rateLimits, limitsByServer, s.target); len(limits) > 0 {
			p.rateLimit = slices.MinFunc(limits, (*rateLimit).before).message
		}
	}
	return p
}

// serverAuthorizationsOf are the authorizations of a Server (policy-inbound 6),
// policies first, each in order of name.
func (ix *index) serverAuthorizationsOf(r *view.Reader, s *server) []*authz {
	namespace := s.GetNamespace()
	policies := state.AppendBy(nil, r.Reader, ix.authorizationPolicies, policiesByTarget, s.target)
	policies = state.AppendBy(policies, r.Reader, ix.authorizationPolicies, policiesByTarget, s.namespaceTarget)
	authorizations := ix.authorize(r, policies)
	// Listed in order of name.
	for a := range state.ListWhere(r.Reader, ix.serverAuthorizations, namespace, func(a *serverAuthorization) bool { return a.selects(s) }) {
		authorizations = append(authorizations, a.authz)
	}
	return authorizations
}

// routeAuthorizations are those of the policies for a route, in order of name.
func (ix *index) routeAuthorizations(r *view.Reader, route *gateway.Route) []*pb.Authz {
	target := routeTarget(route.GetNamespace(), route.Group, route.Kind, route.GetName())
	return authzMessages(ix.authorize(r, state.AppendBy(nil, r.Reader, ix.authorizationPolicies, policiesByTarget, target)))
}

// authorize sorts policies and returns what they allow, with room for one more.
func (ix *index) authorize(r *view.Reader, policies []*authorizationPolicy) []*authz {
	slices.SortFunc(policies, func(a, b *authorizationPolicy) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	authorizations := make([]*authz, 0, len(policies)+1)
	for _, policy := range policies {
		if authz := ix.authorization(r, policy); authz != nil {
			authorizations = append(authorizations, authz)
		}
	}
	return authorizations
}

// authorization is what a policy allows; nil, nothing at all, while an
// authentication that it requires is missing.
func (ix *index) authorization(r *view.Reader, policy *authorizationPolicy) *authz {
	switch {
	case policy.contradictory:
		return nil
	case policy.authz != nil:
		return policy.authz
	}
	// The next Server of the namespace needs the same.
	return view.Use(r, ix.granted, reference{policy.GetNamespace(), policy.GetName()})
}

// newGranted is what policies allow that refer to other objects.
func newGranted(g *view.Graph, ix *index) *view.Set[reference, *authz] {
	return view.NewSet(g, "inbound/authorizations", func(r *view.Reader, key reference, _ **authz) *authz {
		policy, ok := state.Get(r.Reader, ix.authorizationPolicies, key.namespace, key.name)
		if !ok {
			return nil
		}
		authentication, networks := policy.authentication, policy.networks
		if ref := policy.meshTLS; ref != (reference{}) {
			required, ok := state.Get(r.Reader, ix.meshTLS, ref.namespace, ref.name)
			if !ok {
				return nil
			}
			authentication = required.authentication
		}
		if ref := policy.network; ref != (reference{}) {
			required, ok := state.Get(r.Reader, ix.networks, ref.namespace, ref.name)
			if !ok {
				return nil
			}
			networks = required.networks
		}
		return policy.allows(networks, authentication)
	}, (*authz).equal)
}
