package inbound

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// detectTimeout is how long proxies wait for a first byte that tells the protocol.
const detectTimeout = 10 * time.Second

// terms are what goes into the answer for a port, apart from the probes that
// its workload has.
type terms struct {
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
func (t *terms) isPlain() bool {
	return len(t.httpRoutes) == 0 && len(t.grpcRoutes) == 0 && t.rateLimit == nil
}

func (t *terms) labels() map[string]string {
	if t.server == "" {
		return defaultLabels(string(t.policy))
	}
	return map[string]string{"group": apis.Group, "kind": "server", "name": t.server}
}

// isHTTP tells whether HTTP can be spoken, and so routes of it apply. Without
// any of its own, a port has a route for probes (policy-inbound 8.2).
func (t *terms) isHTTP() bool {
	switch t.protocol {
	case apis.ProxyProtocolGRPC, apis.ProxyProtocolOpaque, apis.ProxyProtocolTLS:
		return false
	}
	return true
}

// message is the answer without the authorizations, with the probes' route if
// there is one.
func (m *messages) message(t *terms, probes *pb.HttpRoute) *pb.Server {
	server := &pb.Server{Labels: t.labels()}
	routes := t.httpRoutes
	if len(routes) == 0 {
		routes = []*pb.HttpRoute{m.httpDefault}
		if probes != nil {
			routes = append(routes, probes)
		}
	}
	switch t.protocol {
	case apis.ProxyProtocolHTTP1:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Http1_{Http1: &pb.ProxyProtocol_Http1{Routes: routes, LocalRateLimit: t.rateLimit}}}
	case apis.ProxyProtocolHTTP2:
		server.Protocol = &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Http2_{Http2: &pb.ProxyProtocol_Http2{Routes: routes, LocalRateLimit: t.rateLimit}}}
	case apis.ProxyProtocolGRPC:
		grpcRoutes := t.grpcRoutes
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
			Timeout: durationpb.New(detectTimeout), HttpRoutes: routes, HttpLocalRateLimit: t.rateLimit,
		}}}
	}
	return server
}

// defaultTerms are those of a port without a Server (policy-inbound 5).
func (m *messages) defaultTerms(name policyName, opaque bool) *terms {
	t := &terms{policy: name, authorizations: m.authorize(nil, name)}
	if opaque {
		t.protocol = apis.ProxyProtocolOpaque
	}
	return t
}

// serverTerms are those of a Server's ports.
func (ix *index) serverTerms(r *state.Reader, s *server) *terms {
	t := &terms{
		protocol:       s.protocol,
		server:         s.GetName(),
		authorizations: ix.serverAuthorizationsOf(r, s),
	}
	t.authorizations = ix.messages.authorize(t.authorizations, s.access)
	switch s.protocol {
	case apis.ProxyProtocolOpaque, apis.ProxyProtocolTLS:
	case apis.ProxyProtocolGRPC:
		for _, route := range ix.attached(r, s, ix.grpcRoutes) {
			message := &pb.GrpcRoute{Metadata: route.grpc.Metadata, Hosts: route.grpc.Hosts, Rules: route.grpc.Rules}
			message.Authorizations = authzMessages(ix.policiesFor(r, route.target))
			t.grpcRoutes = append(t.grpcRoutes, message)
		}
	default:
		for _, route := range ix.attached(r, s, ix.policyHTTPRoutes, ix.httpRoutes) {
			message := &pb.HttpRoute{Metadata: route.http.Metadata, Hosts: route.http.Hosts, Rules: route.http.Rules}
			message.Authorizations = authzMessages(ix.policiesFor(r, route.target))
			t.httpRoutes = append(t.httpRoutes, message)
		}
		if limits := state.AppendBy(nil, r, ix.rateLimits, limitsByServer, s.target); len(limits) > 0 {
			t.rateLimit = slices.MinFunc(limits, (*rateLimit).before).message
		}
	}
	return t
}

// attached are the routes of some kinds that a Server has, in order.
func (ix *index) attached(r *state.Reader, s *server, kinds ...*state.Kind[*route]) []*route {
	var routes []*route
	for _, kind := range kinds {
		routes = state.AppendBy(routes, r, kind, routesByServer, s.target)
	}
	slices.SortFunc(routes, (*route).before)
	return routes
}

// serverAuthorizationsOf are the authorizations of a Server (policy-inbound 6),
// policies first, each in order of name.
func (ix *index) serverAuthorizationsOf(r *state.Reader, s *server) []*authz {
	namespace := s.GetNamespace()
	policies := state.AppendBy(nil, r, ix.authorizationPolicies, policiesByTarget, s.target)
	policies = state.AppendBy(policies, r, ix.authorizationPolicies, policiesByTarget, s.namespaceTarget)
	authorizations := ix.authorize(r, policies)
	// Listed in order of name.
	for a := range state.ListWhere(r, ix.serverAuthorizations, namespace, func(a *serverAuthorization) bool { return a.selects(s) }) {
		authorizations = append(authorizations, a.authz)
	}
	return authorizations
}

// policiesFor are the authorizations of the policies with that target, in order of name.
func (ix *index) policiesFor(r *state.Reader, target string) []*authz {
	return ix.authorize(r, state.AppendBy(nil, r, ix.authorizationPolicies, policiesByTarget, target))
}

// authorize sorts policies and returns what they allow, with room for one more.
func (ix *index) authorize(r *state.Reader, policies []*authorizationPolicy) []*authz {
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
func (ix *index) authorization(r *state.Reader, policy *authorizationPolicy) *authz {
	switch {
	case policy.contradiction != nil:
		return nil
	case policy.authz != nil:
		return policy.authz
	}
	var found resolved
	authentication, networks := policy.authentication, policy.networks
	if ref := policy.meshTLS; ref != (reference{}) {
		required, ok := state.Get(r, ix.meshTLS, ref.namespace, ref.name)
		if !ok {
			return nil
		}
		found.meshTLS, authentication = required, required.authentication
	}
	if ref := policy.network; ref != (reference{}) {
		required, ok := state.Get(r, ix.networks, ref.namespace, ref.name)
		if !ok {
			return nil
		}
		found.network, networks = required, required.networks
	}
	// The next Server of the namespace, and the next answer, need the same.
	if last := policy.last.Load(); last != nil && last.meshTLS == found.meshTLS && last.network == found.network {
		return last.authz
	}
	found.authz = policy.allows(networks, authentication)
	policy.last.Store(&found)
	return found.authz
}
