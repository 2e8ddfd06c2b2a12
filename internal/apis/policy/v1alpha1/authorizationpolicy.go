package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// AuthorizationPolicy says which authentications a client of its target needs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=authorizationpolicies,singular=authorizationpolicy,shortName=authzpolicy,scope=Namespaced
type AuthorizationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AuthorizationPolicySpec `json:"spec"`
}

// AuthorizationPolicySpec is the target with the authentications that it requires.
type AuthorizationPolicySpec struct {
	TargetRef policy.LocalTargetRef `json:"targetRef"`
	// RequiredAuthenticationRefs must all hold. Empty means that every client is allowed.
	RequiredAuthenticationRefs []policy.NamespacedTargetRef `json:"requiredAuthenticationRefs"`
}

// UnmarshalJSON refuses a spec without requiredAuthenticationRefs or with an incomplete targetRef.
func (s *AuthorizationPolicySpec) UnmarshalJSON(data []byte) error {
	type plain AuthorizationPolicySpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if s.RequiredAuthenticationRefs == nil {
		return fmt.Errorf("requiredAuthenticationRefs: required")
	}
	if s.TargetRef.Kind == "" || s.TargetRef.Name == "" {
		return fmt.Errorf("targetRef: kind and name are required")
	}
	return nil
}
