package inbound

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// meshTLS is a MeshTLSAuthentication (policy-inbound 7.3). Immutable.
type meshTLS struct {
	metav1.Object
	authentication *pb.Authn
}

func (d *deriver) meshTLSAuthentication(source *policyv1alpha1.MeshTLSAuthentication, previous *meshTLS) (*meshTLS, []problems.Problem) {
	var accepted identities
	for _, identity := range source.Spec.Identities {
		accepted.add(identity)
	}
	for i, ref := range source.Spec.IdentityRefs {
		target := ref.Target()
		switch {
		case target.Targets("", "ServiceAccount"):
			accepted.addName(d.mesh.serviceAccount(target.NamespaceOr(source.Namespace), target.Name))
		case target.Targets("", "Namespace"):
			accepted.add(d.mesh.namespace(target.Name))
		default:
			return unusable(source, fmt.Errorf("spec.identityRefs[%d]: kind %s has no identity", i, target.GroupKind()), previous)
		}
	}
	if accepted.empty() {
		return unusable(source, errors.New("spec has no identity"), previous)
	}
	return &meshTLS{Object: source, authentication: accepted.authentication()}, nil
}

// network is a NetworkAuthentication (policy-inbound 7.4). Immutable.
type network struct {
	metav1.Object
	networks []*pb.Network
}

func (d *deriver) networkAuthentication(source *policyv1alpha1.NetworkAuthentication, previous *network) (*network, []problems.Problem) {
	networks, err := convertNetworks(source.Spec.Networks)
	if err == nil && len(networks) == 0 {
		err = errors.New("spec.networks is empty")
	}
	if err != nil {
		return unusable(source, err, previous)
	}
	return &network{Object: source, networks: networks}, nil
}

func convertNetworks(list []apis.Network) ([]*pb.Network, error) {
	var networks []*pb.Network
	for i, n := range list {
		prefix, err := n.CIDR.Prefix()
		if err != nil {
			return nil, fmt.Errorf("networks[%d]: %w", i, err)
		}
		message := &pb.Network{Net: net.NewIPNetwork(prefix)}
		for _, except := range n.Except {
			prefix, err := except.Prefix()
			if err != nil {
				return nil, fmt.Errorf("networks[%d].except: %w", i, err)
			}
			message.Except = append(message.Except, net.NewIPNetwork(prefix))
		}
		networks = append(networks, message)
	}
	return networks, nil
}
