package inbound

import (
	"net/netip"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// messages are the parts of answers that no object changes, made once.
// Immutable, and so are all messages in this package: answers share them.
type messages struct {
	clusterNetworks []*pb.Network
	// probeNetworks may be empty: no route for probes then.
	probeNetworks   []*pb.Network
	allNetworks     []*pb.Network
	unauthenticated *pb.Authn
	// policies are the authorizations of each policy that has one.
	policies map[policyName]*authz
	// httpDefault and grpcDefault are the routes where none are attached.
	httpDefault *pb.HttpRoute
	grpcDefault *pb.GrpcRoute
}

func newMessages(clusterNetworks, probeNetworks []netip.Prefix) *messages {
	m := &messages{
		clusterNetworks: networkMessages(clusterNetworks),
		probeNetworks:   networkMessages(probeNetworks),
		allNetworks:     networkMessages([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}),
		unauthenticated: &pb.Authn{Permit: &pb.Authn_Unauthenticated{Unauthenticated: &pb.Authn_PermitUnauthenticated{}}},
		httpDefault: &pb.HttpRoute{
			Metadata: defaultMetadata("default"),
			Rules: []*pb.HttpRoute_Rule{{Matches: []*http_route.HttpRouteMatch{
				{Path: &http_route.PathMatch{Kind: &http_route.PathMatch_Prefix{Prefix: "/"}}},
			}}},
		},
		grpcDefault: &pb.GrpcRoute{
			Metadata: defaultMetadata("default"),
			Rules:    []*pb.GrpcRoute_Rule{{Matches: []*grpc_route.GrpcRouteMatch{{Rpc: &grpc_route.GrpcRpcMatch{}}}}},
		},
	}
	var any identities
	any.add("*")
	authenticated := any.authentication()
	m.policies = map[policyName]*authz{
		allUnauthenticated:     defaultAuthorization(allUnauthenticated, m.allNetworks, m.unauthenticated),
		allAuthenticated:       defaultAuthorization(allAuthenticated, m.allNetworks, authenticated),
		clusterUnauthenticated: defaultAuthorization(clusterUnauthenticated, m.clusterNetworks, m.unauthenticated),
		clusterAuthenticated:   defaultAuthorization(clusterAuthenticated, m.clusterNetworks, authenticated),
		auditAll:               defaultAuthorization(auditAll, m.allNetworks, m.unauthenticated),
	}
	return m
}

// authorize appends what a policy allows, which can be nothing.
func (m *messages) authorize(authorizations []*authz, name policyName) []*authz {
	if authz := m.policies[name]; authz != nil {
		return append(authorizations, authz)
	}
	return authorizations
}

func defaultAuthorization(name policyName, networks []*pb.Network, authentication *pb.Authn) *authz {
	return newAuthz(&pb.Authz{Metadata: defaultMetadata(string(name)), Labels: defaultLabels(string(name)), Networks: networks, Authentication: authentication})
}

// networkMessages gives each range without exceptions.
func networkMessages(networks []netip.Prefix) []*pb.Network {
	var out []*pb.Network
	for _, network := range networks {
		out = append(out, &pb.Network{Net: net.NewIPNetwork(network)})
	}
	return out
}
