package inbound

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"

	"github.com/linkerd-lite/linkerd-lite/policy"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// policyName is one of the six policies that exist without an object
// (policy-inbound 5); "" stands for none.
type policyName string

const (
	allUnauthenticated     policyName = "all-unauthenticated"
	allAuthenticated       policyName = "all-authenticated"
	clusterUnauthenticated policyName = "cluster-unauthenticated"
	clusterAuthenticated   policyName = "cluster-authenticated"
	denyAll                policyName = "deny"
	auditAll               policyName = "audit"
)

func parsePolicyName(text string) (policyName, error) {
	names := []policyName{allUnauthenticated, allAuthenticated, clusterUnauthenticated, clusterAuthenticated, denyAll, auditAll}
	if name := policyName(text); slices.Contains(names, name) {
		return name, nil
	}
	return "", fmt.Errorf("policy %q is not one of %q", text, names)
}

// authenticated is the policy for ports that require an identity.
func (n policyName) authenticated() policyName {
	switch n {
	case allUnauthenticated:
		return allAuthenticated
	case clusterUnauthenticated:
		return clusterAuthenticated
	}
	return n
}

// authorizations are what the policy allows: one entry, or none.
func (n policyName) authorizations(clusterNetworks []*pb.Network) []*pb.Authz {
	authz := &pb.Authz{Metadata: defaultMetadata(string(n)), Labels: defaultLabels(string(n))}
	switch n {
	case allUnauthenticated, auditAll:
		authz.Networks, authz.Authentication = allNetworks(), unauthenticated()
	case allAuthenticated:
		authz.Networks, authz.Authentication = allNetworks(), anyAuthenticated()
	case clusterUnauthenticated:
		authz.Networks, authz.Authentication = clusterNetworks, unauthenticated()
	case clusterAuthenticated:
		authz.Networks, authz.Authentication = clusterNetworks, anyAuthenticated()
	default:
		return nil
	}
	return []*pb.Authz{authz}
}

func defaultMetadata(name string) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Default{Default: name}}
}

func defaultLabels(name string) map[string]string {
	return map[string]string{"group": "", "kind": "default", "name": name}
}

func resourceMetadata(group, kind, name string) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{Group: group, Kind: kind, Name: name}}}
}

// networkMessages gives each range without exceptions.
func networkMessages(networks []netip.Prefix) []*pb.Network {
	var messages []*pb.Network
	for _, network := range networks {
		messages = append(messages, &pb.Network{Net: policy.Network(network)})
	}
	return messages
}

func allNetworks() []*pb.Network {
	return networkMessages([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
}
