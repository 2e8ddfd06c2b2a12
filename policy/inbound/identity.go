package inbound

import (
	"strings"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// identities are the client identities that an authentication takes, in the
// order in which they were written. Immutable.
type identities struct {
	names    []*pb.Identity
	suffixes []*pb.IdentitySuffix
}

// add takes an identity as objects write it (policy-inbound 3.3): "*" is every
// identity, "*.a.b" every one below a.b, and all else exactly itself.
func (i *identities) add(text string) {
	if text == "*" {
		i.suffixes = append(i.suffixes, &pb.IdentitySuffix{})
	} else if suffix, ok := strings.CutPrefix(text, "*."); ok {
		i.suffixes = append(i.suffixes, &pb.IdentitySuffix{Parts: strings.Split(suffix, ".")})
	} else {
		i.addName(text)
	}
}

// addName takes an identity and no other, whatever it looks like: the name of a
// ServiceAccount in a reference may be "*", which is no pattern.
func (i *identities) addName(name string) { i.names = append(i.names, &pb.Identity{Name: name}) }

func (i *identities) empty() bool { return len(i.names) == 0 && len(i.suffixes) == 0 }

// authentication is the message that requires one of the identities.
func (i *identities) authentication() *pb.Authn {
	return &pb.Authn{Permit: &pb.Authn_MeshTLS{MeshTLS: &pb.Authn_PermitMeshTLS{
		Clients: &pb.Authn_PermitMeshTLS_Identities{Identities: &pb.Authn_PermitMeshTLS_PermitClientIdentities{
			Identities: i.names,
			Suffixes:   i.suffixes,
		}},
	}}}
}

// anyTLS requires TLS of the mesh but no identity.
func anyTLS() *pb.Authn {
	return &pb.Authn{Permit: &pb.Authn_MeshTLS{MeshTLS: &pb.Authn_PermitMeshTLS{
		Clients: &pb.Authn_PermitMeshTLS_Unauthenticated{Unauthenticated: &pb.Authn_PermitUnauthenticated{}},
	}}}
}

// mesh says how identities of the mesh are named.
type mesh struct{ controlPlaneNamespace, trustDomain string }

// serviceAccount is the identity of a ServiceAccount.
func (m mesh) serviceAccount(namespace, name string) string {
	return strings.Join([]string{name, namespace, "serviceaccount", "identity", m.controlPlaneNamespace, m.trustDomain}, ".")
}

// namespace is the identity pattern of all ServiceAccounts of a namespace.
func (m mesh) namespace(name string) string { return m.serviceAccount(name, "*") }
