package dataplane

import (
	"fmt"
	"net/netip"

	inboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"google.golang.org/protobuf/types/known/durationpb"
)

const allUnauthenticated = "all-unauthenticated"

// defaultServer is the policy of ports of which the control plane has not said
// anything yet.
func defaultServer(name string, cluster []netip.Prefix) (*inboundpb.Server, error) {
	s := &inboundpb.Server{
		Labels: map[string]string{"group": "", "kind": "default", "name": name},
		Protocol: &inboundpb.ProxyProtocol{Kind: &inboundpb.ProxyProtocol_Detect_{Detect: &inboundpb.ProxyProtocol_Detect{
			Timeout: durationpb.New(detectTimeout),
		}}},
	}
	networks := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	authentication := &inboundpb.Authn{Permit: &inboundpb.Authn_Unauthenticated{Unauthenticated: &inboundpb.Authn_PermitUnauthenticated{}}}
	switch name {
	case "deny":
		return s, nil
	case allUnauthenticated, "audit":
	case "cluster-unauthenticated":
		networks = cluster
	case "all-authenticated":
		authentication = anyIdentity()
	case "cluster-authenticated":
		networks, authentication = cluster, anyIdentity()
	default:
		return nil, fmt.Errorf("%sINBOUND_DEFAULT_POLICY is %q, which is no policy", prefix, name)
	}
	if len(networks) == 0 {
		return nil, fmt.Errorf("policy %s needs %sPOLICY_CLUSTER_NETWORKS", name, prefix)
	}
	a := &inboundpb.Authz{Authentication: authentication, Metadata: &meta.Metadata{Kind: &meta.Metadata_Default{Default: name}}}
	for _, n := range networks {
		a.Networks = append(a.Networks, &inboundpb.Network{Net: netpb.NewIPNetwork(n)})
	}
	s.Authorizations = []*inboundpb.Authz{a}
	return s, nil
}

// anyIdentity is that of all clients with one.
func anyIdentity() *inboundpb.Authn {
	return &inboundpb.Authn{Permit: &inboundpb.Authn_MeshTLS{MeshTLS: &inboundpb.Authn_PermitMeshTLS{
		Clients: &inboundpb.Authn_PermitMeshTLS_Identities{Identities: &inboundpb.Authn_PermitMeshTLS_PermitClientIdentities{
			Suffixes: []*inboundpb.IdentitySuffix{{}},
		}},
	}}}
}
