package inbound

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// The kinds of authorizations, as metadata and labels spell them.
const (
	serverAuthorizationKind = "serverauthorization"
	authorizationPolicyKind = "authorizationpolicy"
)

// authorizationFrom is the message of an object that authorizes.
func authorizationFrom(kind, name string, networks []*pb.Network, authentication *pb.Authn) *authz {
	return newAuthz(&pb.Authz{
		Metadata:       resourceMetadata(apis.Group, kind, name),
		Labels:         map[string]string{"group": apis.Group, "kind": kind, "name": name},
		Networks:       networks,
		Authentication: authentication,
	})
}

// serverAuthorization is a ServerAuthorization (policy-inbound 7.1). Immutable.
type serverAuthorization struct {
	metav1.Object
	server policyv1beta1.ServerRef
	authz  *authz
}

func (d *deriver) serverAuthorization(source *policyv1beta1.ServerAuthorization, previous *serverAuthorization) (*serverAuthorization, []problems.Problem) {
	client := source.Spec.Client
	networks, err := convertNetworks(client.Networks)
	if err != nil {
		return unusable(source, fmt.Errorf("spec.client.%w", err), previous)
	}
	if len(networks) == 0 {
		networks = d.clusterNetworks
	}
	authentication, err := d.clientAuthentication(client, source.Namespace)
	if err != nil {
		return unusable(source, err, previous)
	}
	return &serverAuthorization{
		Object: source,
		server: source.Spec.Server,
		authz:  authorizationFrom(serverAuthorizationKind, source.Name, networks, authentication),
	}, nil
}

func (d *deriver) clientAuthentication(client policyv1beta1.Client, namespace string) (*pb.Authn, error) {
	switch {
	case client.Unauthenticated:
		return d.unauthenticated, nil
	case client.MeshTLS == nil:
		return nil, errors.New("spec.client: neither unauthenticated nor meshTLS is set")
	case client.MeshTLS.UnauthenticatedTLS:
		return anyTLS(), nil
	}
	var accepted identities
	for _, identity := range client.MeshTLS.Identities {
		accepted.add(string(identity))
	}
	for _, account := range client.MeshTLS.ServiceAccounts {
		accepted.addName(d.mesh.serviceAccount(cmp.Or(account.Namespace, namespace), account.Name))
	}
	if accepted.empty() {
		return nil, errors.New("spec.client.meshTLS has no identity")
	}
	return accepted.authentication(), nil
}

// selects tells whether the authorization is for the Server: by name, by
// labels, or, when it says neither, because it is for all of the namespace.
func (a *serverAuthorization) selects(s *server) bool {
	switch {
	case a.server.Name != "":
		return a.server.Name == s.GetName()
	case a.server.Selector != nil:
		return a.server.Selector.Matches(s.labels)
	}
	return true
}

// authorizationPolicy is an AuthorizationPolicy (policy-inbound 7.2). Immutable.
type authorizationPolicy struct {
	metav1.Object
	// target is the index key of what the policy is for.
	target string
	// authentication and networks are required unless they are to be read: of
	// the MeshTLSAuthentication and the NetworkAuthentication of those names.
	authentication *pb.Authn
	networks       []*pb.Network
	meshTLS        reference
	network        reference
	// authz is what the policy allows if nothing is to be read.
	authz *authz
	// contradictory tells that the policy can never hold.
	contradictory bool
}

type reference struct{ namespace, name string }

// Index keys of what a policy, a route or a rate limit is for.
func serverTarget(namespace, name string) string {
	return gateway.Reference{Kind: gateway.Server, Namespace: namespace, Name: name}.String()
}
func namespaceTarget(namespace string) string { return namespace + "/namespace" }
func routeTarget(namespace, group, kind, name string) string {
	return namespace + "/route/" + strings.ToLower(group+"/"+kind+"/"+name)
}

var policiesByTarget = state.NewIndex(0, "target", func(p *authorizationPolicy) []string { return []string{p.target} })

func (d *deriver) authorizationPolicy(source *policyv1alpha1.AuthorizationPolicy, previous *authorizationPolicy) (*authorizationPolicy, []problems.Problem) {
	out := &authorizationPolicy{Object: source, authentication: d.unauthenticated, networks: d.allNetworks}
	target := source.Spec.TargetRef
	switch {
	case target.Targets(apis.Group, "Server"):
		out.target = serverTarget(source.Namespace, target.Name)
	case target.Targets("", "Namespace"):
		out.target = namespaceTarget(source.Namespace)
	case target.Targets(apis.Group, "HTTPRoute"), target.Targets(apis.GatewayGroup, "HTTPRoute"), target.Targets(apis.GatewayGroup, "GRPCRoute"):
		out.target = routeTarget(source.Namespace, target.Group, target.Kind, target.Name)
	default:
		return unusable(source, fmt.Errorf("spec.targetRef: kind %s cannot be a target", target.GroupKind()), previous)
	}
	var found []problems.Problem
	contradicts := func(i int, why string) {
		found = append(found, problems.Problem{
			Field:   field.NewPath("spec", "requiredAuthenticationRefs").Index(i).String(),
			Message: why, Instead: "it authorizes nobody", Severity: problems.Error,
		})
	}
	hasIdentity := false
	for i, ref := range source.Spec.RequiredAuthenticationRefs {
		name := reference{ref.NamespaceOr(source.Namespace), ref.Name}
		isAccount := ref.Targets("", "ServiceAccount")
		switch {
		case isAccount || ref.Targets(apis.Group, "MeshTLSAuthentication"):
			if hasIdentity {
				contradicts(i, "a client has one identity only")
			} else if isAccount {
				var accepted identities
				accepted.addName(d.mesh.serviceAccount(name.namespace, name.name))
				out.authentication = accepted.authentication()
			} else {
				out.meshTLS = name
			}
			hasIdentity = true
		case ref.Targets(apis.Group, "NetworkAuthentication"):
			if out.network != (reference{}) {
				contradicts(i, "a client comes from one place only: this is a second NetworkAuthentication")
			}
			out.network = name
		default:
			return unusable(source, fmt.Errorf("spec.requiredAuthenticationRefs[%d]: kind %s is no authentication", i, ref.GroupKind()), previous)
		}
	}
	out.contradictory = len(found) > 0
	if out.meshTLS == (reference{}) && out.network == (reference{}) {
		out.authz = out.allows(out.networks, out.authentication)
	}
	return out, found
}

// allows is the policy's authorization.
func (p *authorizationPolicy) allows(networks []*pb.Network, authentication *pb.Authn) *authz {
	return authorizationFrom(authorizationPolicyKind, p.GetName(), networks, authentication)
}
