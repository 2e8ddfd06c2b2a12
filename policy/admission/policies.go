package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

var accessPolicies = []string{
	"all-authenticated", "all-unauthenticated", "cluster-authenticated", "cluster-unauthenticated", "deny", "audit",
}

func spec() *field.Path { return field.NewPath("spec") }

func checkServer(o *object) *problems.Problem {
	// With accessPolicy given in advance, one that is given as "" differs from none.
	server := policyv1beta3.ServerSpec{AccessPolicy: accessPolicies[0]}
	if p := decodeSpec(o, &server); p != nil {
		return p
	}
	if !slices.Contains(accessPolicies, server.AccessPolicy) {
		return problems.At(spec().Child("accessPolicy"), "%q is not one of %q", server.AccessPolicy, accessPolicies)
	}
	return nil
}

func checkServerAuthorization(o *object) *problems.Problem {
	var authorization policyv1beta1.ServerAuthorizationSpec
	if p := decodeSpec(o, &authorization); p != nil {
		return p
	}
	client, at := authorization.Client, spec().Child("client")
	if tls := client.MeshTLS; tls != nil {
		if client.Unauthenticated {
			return problems.At(at, "meshTLS and unauthenticated exclude each other")
		}
		if tls.UnauthenticatedTLS && len(tls.Identities)+len(tls.ServiceAccounts) > 0 {
			return problems.At(at.Child("meshTLS", "unauthenticatedTLS"), "excludes identities and serviceAccounts")
		}
	}
	return checkNetworks(at.Child("networks"), client.Networks)
}

// checkNetworks looks at what networks leave out. Host bits do not count.
func checkNetworks(at *field.Path, networks []policy.Network) *problems.Problem {
	for i, network := range networks {
		cidr, err := network.CIDR.Prefix()
		if err != nil {
			return problems.At(at.Index(i).Child("cidr"), "%v", err)
		}
		for j, text := range network.Except {
			at := at.Index(i).Child("except").Index(j)
			except, err := text.Prefix()
			if err != nil {
				return problems.At(at, "%v", err)
			}
			if except.Bits() <= cidr.Bits() && except.Contains(cidr.Addr()) {
				return problems.At(at, "cidr %s is negated by %s, which leaves nothing of it", network.CIDR, text)
			}
			if except.Bits() < cidr.Bits() || !cidr.Contains(except.Addr()) {
				return problems.At(at, "%s is not included in cidr %s", text, network.CIDR)
			}
		}
	}
	return nil
}

func checkAuthorizationPolicy(o *object) *problems.Problem {
	var authorization policyv1alpha1.AuthorizationPolicySpec
	if p := decodeSpec(o, &authorization); p != nil {
		return p
	}
	target, at := authorization.TargetRef, spec().Child("targetRef")
	if target.Targets("", "Namespace") && target.Name != o.namespace {
		return problems.At(at.Child("name"), "only the policy's own namespace may be targeted, not %q", target.Name)
	}
	if p := checkAuthentications(spec().Child("requiredAuthenticationRefs"), authorization.RequiredAuthenticationRefs); p != nil {
		return p
	}
	switch {
	case target.Targets(policy.Group, "Server"), target.Targets("", "Namespace"), target.Targets(policy.Group, "HTTPRoute"),
		target.Targets(policy.GatewayGroup, "HTTPRoute"), target.Targets(policy.GatewayGroup, "GRPCRoute"):
		return nil
	}
	return problems.At(at.Child("kind"), "%s cannot be targeted", target.GroupKind())
}

func checkAuthentications(at *field.Path, refs []policy.NamespacedTargetRef) *problems.Problem {
	var mesh, accounts, networks int
	var unknown []string
	for _, ref := range refs {
		switch {
		case ref.Targets(policy.Group, "MeshTLSAuthentication"):
			mesh++
		case ref.Targets("", "ServiceAccount"):
			accounts++
		case ref.Targets(policy.Group, "NetworkAuthentication"):
			networks++
		default:
			unknown = append(unknown, ref.GroupKind())
		}
	}
	switch {
	case mesh > 1:
		return problems.At(at, "at most one MeshTLSAuthentication is possible")
	case accounts > 1:
		return problems.At(at, "at most one ServiceAccount is possible")
	case mesh+accounts > 1:
		return problems.At(at, "MeshTLSAuthentication and ServiceAccount exclude each other")
	case networks > 1:
		return problems.At(at, "at most one NetworkAuthentication is possible")
	case unknown != nil:
		return problems.At(at, "no authentications: %q", unknown)
	}
	return nil
}

func checkMeshTLSAuthentication(o *object) *problems.Problem {
	var authentication policyv1alpha1.MeshTLSAuthenticationSpec
	if p := decodeSpec(o, &authentication); p != nil {
		return p
	}
	for i, identity := range authentication.Identities {
		if err := checkIdentity(identity); err != nil {
			return problems.At(spec().Child("identities").Index(i), "identity %q is invalid: %v", identity, err)
		}
	}
	for i, ref := range authentication.IdentityRefs {
		at, target := spec().Child("identityRefs").Index(i), ref.Target()
		switch {
		case target.Targets("", "Namespace"):
			if ref.Namespace != nil {
				return problems.At(at.Child("namespace"), "a reference to a Namespace has no namespace")
			}
		case !target.Targets("", "ServiceAccount"):
			return problems.At(at.Child("kind"), "%s has no identity", target.GroupKind())
		}
	}
	return nil
}

func checkNetworkAuthentication(o *object) *problems.Problem {
	var authentication policyv1alpha1.NetworkAuthenticationSpec
	if p := decodeSpec(o, &authentication); p != nil {
		return p
	}
	at := spec().Child("networks")
	if len(authentication.Networks) == 0 {
		return problems.At(at, "at least one network is needed")
	}
	return checkNetworks(at, authentication.Networks)
}

func checkEgressNetwork(o *object) *problems.Problem {
	var egress policyv1alpha1.EgressNetworkSpec
	if p := decodeSpec(o, &egress); p != nil {
		return p
	}
	at := spec().Child("networks")
	if egress.Networks != nil && len(egress.Networks) == 0 {
		return problems.At(at, "at least one network is needed")
	}
	return checkNetworks(at, egress.Networks)
}

func checkRateLimit(o *object) *problems.Problem {
	var limits policyv1alpha1.HTTPLocalRateLimitPolicySpec
	if p := decodeSpec(o, &limits); p != nil {
		return p
	}
	if !limits.TargetRef.Targets(policy.Group, "Server") {
		return problems.At(spec().Child("targetRef", "kind"), "%s cannot be targeted", limits.TargetRef.GroupKind())
	}
	const rate = "requestsPerSecond"
	total, identity, overrides := spec().Child("total", rate), spec().Child("identity", rate), spec().Child("overrides")
	if limits.Total != nil {
		most := limits.Total.RequestsPerSecond
		if most == 0 {
			return problems.At(total, "must be positive")
		}
		if limits.Identity != nil && limits.Identity.RequestsPerSecond > most {
			return problems.At(identity, "%d exceeds the total of %d", limits.Identity.RequestsPerSecond, most)
		}
		for i, override := range limits.Overrides {
			if override.RequestsPerSecond > most {
				return problems.At(overrides.Index(i).Child(rate), "%d exceeds the total of %d", override.RequestsPerSecond, most)
			}
		}
	}
	if limits.Identity != nil && limits.Identity.RequestsPerSecond == 0 {
		return problems.At(identity, "must be positive")
	}
	for i, override := range limits.Overrides {
		if override.RequestsPerSecond == 0 {
			return problems.At(overrides.Index(i).Child(rate), "must be positive")
		}
	}
	for i, override := range limits.Overrides {
		for j, ref := range override.ClientRefs {
			if !ref.Targets("", "ServiceAccount") {
				return problems.At(overrides.Index(i).Child("clientRefs").Index(j).Child("kind"), "%s is no ServiceAccount", ref.GroupKind())
			}
		}
	}
	return nil
}
