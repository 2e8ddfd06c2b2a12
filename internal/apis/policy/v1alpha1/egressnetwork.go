package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// EgressNetwork describes traffic that leaves the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressnetworks,categories=policy,scope=Namespaced
type EgressNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EgressNetworkSpec `json:"spec"`
	// +optional
	Status EgressNetworkStatus `json:"status,omitempty"`
}

// EgressNetworkSpec is a set of networks with what happens to traffic for which no route exists.
type EgressNetworkSpec struct {
	TrafficPolicy TrafficPolicy `json:"trafficPolicy"`
	// Networks is nil when the field is absent, which means everything outside the cluster; an empty list matches
	// nothing.
	// +optional
	Networks []policy.Network `json:"networks,omitempty"`
}

// UnmarshalJSON refuses a spec without trafficPolicy.
func (s *EgressNetworkSpec) UnmarshalJSON(data []byte) error {
	type plain EgressNetworkSpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if s.TrafficPolicy == "" {
		return fmt.Errorf("trafficPolicy: required")
	}
	return nil
}

// TrafficPolicy says what happens to traffic without a route.
//
// +kubebuilder:validation:Enum=Allow;Deny
type TrafficPolicy string

// The traffic policies.
const (
	TrafficPolicyAllow TrafficPolicy = "Allow"
	TrafficPolicyDeny  TrafficPolicy = "Deny"
)

// UnmarshalJSON refuses unknown values: an object with one does not decode.
func (p *TrafficPolicy) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("trafficPolicy: %w", err)
	}
	switch value := TrafficPolicy(text); value {
	case TrafficPolicyAllow, TrafficPolicyDeny:
		*p = value
		return nil
	}
	return fmt.Errorf("trafficPolicy: %q is neither Allow nor Deny", text)
}

// EgressNetworkStatus is what the controller says of an EgressNetwork.
type EgressNetworkStatus struct {
	// +optional
	Conditions []policy.Condition `json:"conditions,omitempty"`
}
