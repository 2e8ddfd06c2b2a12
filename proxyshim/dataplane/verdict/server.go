package verdict

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// Server is what a server's proxy does with connections to one port. Immutable.
type Server struct {
	Protocol      Protocol
	DetectTimeout time.Duration
	// Group, Kind and Name say whose policy it is.
	Group, Kind, Name string
	// Routes is nil if the port takes no HTTP.
	Routes    *Table[*ServerRule]
	RateLimit *inbound.HttpLocalRateLimit
	// Invalid says what is wrong with the policy: then nothing passes.
	Invalid string

	authorizations []*inbound.Authz
}

// ServerRule is what is done with a request.
type ServerRule struct {
	Route   *meta.Metadata
	Filters []Filter

	authorizations []*inbound.Authz
}

// Client is who is at the other end of a connection.
type Client struct {
	Addr netip.Addr
	// TLS says that the connection was terminated here, with a client of this
	// identity if it is not empty.
	TLS      bool
	Identity string
}

// NewServer reads a policy.
func NewServer(in *inbound.Server) *Server {
	labels := in.GetLabels()
	s := &Server{
		DetectTimeout: detectTimeout, Group: labels["group"], Kind: labels["kind"], Name: labels["name"],
		authorizations: append(slices.Clone(in.GetAuthorizations()), localhost()),
	}
	var err error
	switch kind := in.GetProtocol().GetKind().(type) {
	case *inbound.ProxyProtocol_Detect_:
		s.DetectTimeout = duration(kind.Detect.GetTimeout())
		s.RateLimit = kind.Detect.GetHttpLocalRateLimit()
		s.Routes, err = s.httpTable(kind.Detect.GetHttpRoutes())
	case *inbound.ProxyProtocol_Http1_:
		s.Protocol, s.RateLimit = HTTP1, kind.Http1.GetLocalRateLimit()
		s.Routes, err = s.httpTable(kind.Http1.GetRoutes())
	case *inbound.ProxyProtocol_Http2_:
		s.Protocol, s.RateLimit = HTTP2, kind.Http2.GetLocalRateLimit()
		s.Routes, err = s.httpTable(kind.Http2.GetRoutes())
	case *inbound.ProxyProtocol_Grpc_:
		s.Protocol = GRPC
		s.Routes, err = s.grpcTable(kind.Grpc.GetRoutes())
	case *inbound.ProxyProtocol_Opaque_:
		s.Protocol = Opaque
	case *inbound.ProxyProtocol_Tls_:
		s.Protocol = TLS
	default:
		err = errors.New("policy without a protocol")
	}
	for _, a := range in.GetAuthorizations() {
		if len(a.GetNetworks()) == 0 || a.GetAuthentication().GetPermit() == nil {
			err = errors.New("an authorization without networks or authentication")
		}
	}
	if err != nil {
		s.Invalid = err.Error()
	}
	return s
}

// localhost lets clients of the proxy's own network pass whatever the policy.
func localhost() *inbound.Authz {
	a := &inbound.Authz{
		Metadata:       defaultMeta("localhost"),
		Authentication: &inbound.Authn{Permit: &inbound.Authn_Unauthenticated{Unauthenticated: &inbound.Authn_PermitUnauthenticated{}}},
	}
	for _, network := range []string{"127.0.0.1/32", "::1/128"} {
		a.Networks = append(a.Networks, &inbound.Network{Net: netpb.NewIPNetwork(netip.MustParsePrefix(network))})
	}
	return a
}

func (s *Server) httpTable(routes []*inbound.HttpRoute) (*Table[*ServerRule], error) {
	table := &Table[*ServerRule]{}
	for _, route := range routes {
		to := tableRoute[*ServerRule]{hosts: route.GetHosts()}
		for _, r := range route.GetRules() {
			rule := s.rule(route.GetMetadata(), route.GetAuthorizations())
			for _, f := range r.GetFilters() {
				switch kind := f.GetKind().(type) {
				case *inbound.HttpRoute_Filter_FailureInjector:
					rule.Filters = append(rule.Filters, Filter{Failure: httpFailure(kind.FailureInjector)})
				case *inbound.HttpRoute_Filter_RequestHeaderModifier:
					rule.Filters = append(rule.Filters, Filter{Request: kind.RequestHeaderModifier})
				case *inbound.HttpRoute_Filter_Redirect:
					rule.Filters = append(rule.Filters, Filter{Redirect: kind.Redirect})
				default:
					return nil, errFilter
				}
			}
			to.rules = append(to.rules, tableRule[*ServerRule]{httpMatchers(r.GetMatches()), rule})
		}
		table.routes = append(table.routes, to)
	}
	return s.orAll(table), nil
}

func (s *Server) grpcTable(routes []*inbound.GrpcRoute) (*Table[*ServerRule], error) {
	table := &Table[*ServerRule]{}
	for _, route := range routes {
		to := tableRoute[*ServerRule]{hosts: route.GetHosts()}
		for _, r := range route.GetRules() {
			rule := s.rule(route.GetMetadata(), route.GetAuthorizations())
			for _, f := range r.GetFilters() {
				switch kind := f.GetKind().(type) {
				case *inbound.GrpcRoute_Filter_FailureInjector:
					in := kind.FailureInjector
					rule.Filters = append(rule.Filters, Filter{Failure: &Failure{Code: codes.Code(in.GetCode()), Message: in.GetMessage(), Ratio: in.GetRatio()}})
				case *inbound.GrpcRoute_Filter_RequestHeaderModifier:
					rule.Filters = append(rule.Filters, Filter{Request: kind.RequestHeaderModifier})
				default:
					return nil, errFilter
				}
			}
			to.rules = append(to.rules, tableRule[*ServerRule]{grpcMatchers(r.GetMatches()), rule})
		}
		table.routes = append(table.routes, to)
	}
	return s.orAll(table), nil
}

// rule has the route's authorizations before the server's.
func (s *Server) rule(of *meta.Metadata, authorizations []*inbound.Authz) *ServerRule {
	return &ServerRule{Route: of, authorizations: slices.Concat(authorizations, s.authorizations)}
}

// orAll puts a rule for everything in a table without routes.
func (s *Server) orAll(table *Table[*ServerRule]) *Table[*ServerRule] {
	if len(table.routes) == 0 {
		table.routes = []tableRoute[*ServerRule]{{rules: []tableRule[*ServerRule]{{everything(rank{1}, 1), s.rule(defaultMeta("default"), nil)}}}}
	}
	return table
}

// Authorize returns the authorization by which a client may send a request that
// the rule is for, nil if there is none.
func (r *ServerRule) Authorize(c Client) *meta.Metadata { return authorize(r.authorizations, c) }

// Authorize returns the authorization by which a client may connect, nil if
// there is none.
func (s *Server) Authorize(c Client) *meta.Metadata { return authorize(s.authorizations, c) }

func authorize(all []*inbound.Authz, c Client) *meta.Metadata {
	for _, a := range all {
		if inNetworks(a.GetNetworks(), c.Addr.Unmap()) && authenticated(a.GetAuthentication(), c) {
			return a.GetMetadata()
		}
	}
	return nil
}

func inNetworks(networks []*inbound.Network, addr netip.Addr) bool {
	contains := func(n *netpb.IPNetwork) bool {
		prefix, err := n.GetIp().Addr().Prefix(int(n.GetPrefixLen()))
		return err == nil && prefix.Contains(addr)
	}
	return slices.ContainsFunc(networks, func(n *inbound.Network) bool {
		return contains(n.GetNet()) && !slices.ContainsFunc(n.GetExcept(), contains)
	})
}

func authenticated(a *inbound.Authn, c Client) bool {
	if a.GetUnauthenticated() != nil {
		return true
	}
	if !c.TLS || a.GetMeshTLS() == nil {
		return false
	}
	if a.GetMeshTLS().GetUnauthenticated() != nil {
		return true
	}
	if c.Identity == "" {
		return false
	}
	identities := a.GetMeshTLS().GetIdentities()
	return slices.ContainsFunc(identities.GetIdentities(), func(i *inbound.Identity) bool { return i.GetName() == c.Identity }) ||
		slices.ContainsFunc(identities.GetSuffixes(), func(s *inbound.IdentitySuffix) bool {
			// A suffix is of DNS names, never of URIs; without parts it is of all.
			return !strings.Contains(c.Identity, "://") && (len(s.GetParts()) == 0 || strings.HasSuffix(c.Identity, "."+strings.Join(s.GetParts(), ".")))
		})
}
