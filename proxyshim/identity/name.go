package identity

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Audience is that of the tokens which proxies present.
const Audience = "identity.l5d.io"

// names builds identities for one control plane (identity section 1).
type names struct{ controlPlaneNamespace, trustDomain string }

func newNames(controlPlaneNamespace, trustDomain string) (names, error) {
	if problems := validation.IsDNS1123Label(controlPlaneNamespace); len(problems) > 0 {
		return names{}, fmt.Errorf("control-plane namespace %q: %s", controlPlaneNamespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(trustDomain); len(problems) > 0 {
		return names{}, fmt.Errorf("identity trust domain %q: %s", trustDomain, problems[0])
	}
	return names{controlPlaneNamespace, trustDomain}, nil
}

// issuer is the common name of the issuer.
func (n names) issuer() string {
	return "identity." + n.controlPlaneNamespace + "." + n.trustDomain
}

// ofUser is the identity of a Kubernetes user name such as
// system:serviceaccount:NS:SA (identity section 3).
func (n names) ofUser(user string) (string, error) {
	parts := strings.Split(user, ":")
	if len(parts) != 4 || parts[0] != "system" {
		return "", fmt.Errorf("user %q is no service account", user)
	}
	kind, namespace, account := parts[1], parts[2], parts[3]
	for _, label := range parts[1:] {
		if problems := validation.IsDNS1123Label(label); len(problems) > 0 {
			return "", fmt.Errorf("user %q: %q cannot be part of an identity: %s", user, label, problems[0])
		}
	}
	return strings.Join([]string{account, namespace, kind, n.issuer()}, "."), nil
}
