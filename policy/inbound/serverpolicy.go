package inbound

import (
	"iter"
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
	protocol       apis.ProxyProtocol
	labels         map[string]string
	authorizations []*pb.Authz
	// httpRoutes or grpcRoutes are the attached routes; without any, the
	// default route is used.
	httpRoutes []*pb.HttpRoute
	grpcRoutes []*pb.GrpcRoute
	rateLimit  *pb.HttpLocalRateLimit
}

// takesProbes tells whether a route for probes is part of the answer: attached
// routes exclude it (policy-inbound 8.2).
func (t *terms) takesProbes() bool {
	switch t.protocol {
	case apis.ProxyProtocolGRPC, apis.ProxyProtocolOpaque, apis.ProxyProtocolTLS:
		return false
	}
	return len(t.httpRoutes) == 0
}

// message is the answer, with the probes' route if there is one.
func (m *messages) message(t *terms, probes *pb.HttpRoute) *pb.Server {
	server := &pb.Server{Labels: t.labels, Authorizations: t.authorizations}
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
	t := &terms{labels: defaultLabels(string(name)), authorizations: m.authorize(nil, name)}
	if opaque {
		t.protocol = apis.ProxyProtocolOpaque
	}
	return t
}

// serverTerms are those of a Server's ports.
func (ix *index) serverTerms(r *state.Reader, s *server) *terms {
	t := &terms{
		protocol:       s.protocol,
		labels:         map[string]string{"group": apis.Group, "kind": "server", "name": s.GetName()},
		authorizations: ix.serverAuthorizationsOf(r, s),
	}
	t.authorizations = ix.messages.authorize(t.authorizations, s.access)
	key := serverTarget(s.GetNamespace(), s.GetName())
	switch s.protocol {
	case apis.ProxyProtocolOpaque, apis.ProxyProtocolTLS:
	case apis.ProxyProtocolGRPC:
		for _, route := range slices.SortedFunc(state.By(r, ix.grpcRoutes, routesByServer, key), (*route).before) {
			message := &pb.GrpcRoute{Metadata: route.grpc.Metadata, Hosts: route.grpc.Hosts, Rules: route.grpc.Rules}
			message.Authorizations = ix.policiesFor(r, route.target)
			t.grpcRoutes = append(t.grpcRoutes, message)
		}
	default:
		attached := slices.AppendSeq(slices.Collect(state.By(r, ix.policyHTTPRoutes, routesByServer, key)), state.By(r, ix.httpRoutes, routesByServer, key))
		slices.SortFunc(attached, (*route).before)
		for _, route := range attached {
			message := &pb.HttpRoute{Metadata: route.http.Metadata, Hosts: route.http.Hosts, Rules: route.http.Rules}
			message.Authorizations = ix.policiesFor(r, route.target)
			t.httpRoutes = append(t.httpRoutes, message)
		}
		limits := slices.SortedFunc(state.By(r, ix.rateLimits, limitsByServer, key), (*rateLimit).before)
		if len(limits) > 0 {
			t.rateLimit = limits[0].message
		}
	}
	return t
}

// serverAuthorizationsOf are the authorizations of a Server (policy-inbound 6),
// policies first, each in order of name.
func (ix *index) serverAuthorizationsOf(r *state.Reader, s *server) []*pb.Authz {
	namespace := s.GetNamespace()
	policies := slices.Collect(state.By(r, ix.authorizationPolicies, policiesByTarget, serverTarget(namespace, s.GetName())))
	policies = slices.AppendSeq(policies, state.By(r, ix.authorizationPolicies, policiesByTarget, namespaceTarget(namespace)))
	authorizations := ix.authorize(r, slices.Values(policies))
	// Listed in order of name.
	for a := range state.ListWhere(r, ix.serverAuthorizations, namespace, func(a *serverAuthorization) bool { return a.selects(s) }) {
		authorizations = append(authorizations, a.authz)
	}
	return authorizations
}

// policiesFor are the authorizations of the policies with that target, in order of name.
func (ix *index) policiesFor(r *state.Reader, target string) []*pb.Authz {
	return ix.authorize(r, state.By(r, ix.authorizationPolicies, policiesByTarget, target))
}

func (ix *index) authorize(r *state.Reader, policies iter.Seq[*authorizationPolicy]) []*pb.Authz {
	sorted := slices.SortedFunc(policies, func(a, b *authorizationPolicy) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	var authorizations []*pb.Authz
	for _, policy := range sorted {
		if authz := ix.authorization(r, policy); authz != nil {
			authorizations = append(authorizations, authz)
		}
	}
	return authorizations
}

// authorization is what a policy allows; nil, nothing at all, while an
// authentication that it requires is missing.
func (ix *index) authorization(r *state.Reader, policy *authorizationPolicy) *pb.Authz {
	switch {
	case policy.contradiction != nil:
		return nil
	case policy.authz != nil:
		return policy.authz
	}
	authentication, networks := policy.authentication, policy.networks
	if ref := policy.meshTLS; ref != (reference{}) {
		required, ok := state.Get(r, ix.meshTLS, ref.namespace, ref.name)
		if !ok {
			return nil
		}
		authentication = required.authentication
	}
	if ref := policy.network; ref != (reference{}) {
		required, ok := state.Get(r, ix.networks, ref.namespace, ref.name)
		if !ok {
			return nil
		}
		networks = required.networks
	}
	return policy.allows(networks, authentication)
}
