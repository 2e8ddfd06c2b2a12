package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// MeshTLSAuthentication names clients by their mesh identity.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=meshtlsauthentications,shortName=meshtlsauthn,scope=Namespaced
type MeshTLSAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MeshTLSAuthenticationSpec `json:"spec"`
}

// MeshTLSAuthenticationSpec lists identities, or objects that have them.
//
// +kubebuilder:validation:ExactlyOneOf=identities;identityRefs
type MeshTLSAuthenticationSpec struct {
	// +optional
	// +kubebuilder:validation:MinItems=1
	Identities []string `json:"identities,omitempty"`
	// +optional
	// +kubebuilder:validation:MinItems=1
	IdentityRefs []IdentityRef `json:"identityRefs,omitempty"`
}

// UnmarshalJSON refuses references without kind or name.
func (s *MeshTLSAuthenticationSpec) UnmarshalJSON(data []byte) error {
	type plain MeshTLSAuthenticationSpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	for i, ref := range s.IdentityRefs {
		if ref.Kind == "" || ref.Name == "" {
			return fmt.Errorf("identityRefs[%d]: kind and name are required", i)
		}
	}
	return nil
}

// IdentityRef names a ServiceAccount, or a Namespace with all its ServiceAccounts. Its schema does not require a
// name, though no object without one decodes.
type IdentityRef struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Group string `json:"group,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace *string `json:"namespace,omitempty"`
}

// Target is the reference in the form that other kinds use.
func (r IdentityRef) Target() policy.NamespacedTargetRef {
	return policy.NamespacedTargetRef{Group: r.Group, Kind: r.Kind, Name: r.Name, Namespace: r.Namespace}
}
