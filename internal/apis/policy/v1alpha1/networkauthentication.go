package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// NetworkAuthentication names clients by their address.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=networkauthentications,shortName=netauthn;networkauthn,scope=Namespaced
type NetworkAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NetworkAuthenticationSpec `json:"spec"`
}

// NetworkAuthenticationSpec is a set of networks.
type NetworkAuthenticationSpec struct {
	Networks []policy.Network `json:"networks"`
}

// UnmarshalJSON refuses a spec without networks.
func (s *NetworkAuthenticationSpec) UnmarshalJSON(data []byte) error {
	type plain NetworkAuthenticationSpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if s.Networks == nil {
		return fmt.Errorf("networks: required")
	}
	return nil
}
