package inbound

import (
	"fmt"
	"slices"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
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
	return "", fmt.Errorf("policy %q is not one of %q", printable.Short(text), names)
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

func defaultMetadata(name string) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Default{Default: name}}
}

func defaultLabels(name string) map[string]string {
	return map[string]string{"group": "", "kind": "default", "name": name}
}

func resourceMetadata(group, kind, name string) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{Group: group, Kind: kind, Name: name}}}
}
