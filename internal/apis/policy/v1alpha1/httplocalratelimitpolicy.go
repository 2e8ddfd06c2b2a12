package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// HTTPLocalRateLimitPolicy limits the requests that each proxy of a Server lets through.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=httplocalratelimitpolicies,singular=httplocalratelimitpolicy,scope=Namespaced
// +kubebuilder:printcolumn:name=Target_kind,type=string,JSONPath=`.spec.targetRef.kind`,description="Kind of the limited object"
// +kubebuilder:printcolumn:name=Target_name,type=string,JSONPath=`.spec.targetRef.name`,description="Name of the limited object"
// +kubebuilder:printcolumn:name=Total_RPS,type=integer,JSONPath=`.spec.total.requestsPerSecond`,description="Limit of all clients together"
// +kubebuilder:printcolumn:name=Identity_RPS,type=integer,JSONPath=`.spec.identity.requestsPerSecond`,description="Limit of each client identity"
type HTTPLocalRateLimitPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HTTPLocalRateLimitPolicySpec `json:"spec"`
	// +optional
	Status HTTPLocalRateLimitPolicyStatus `json:"status,omitempty"`
}

// HTTPLocalRateLimitPolicySpec is the target with its limits.
type HTTPLocalRateLimitPolicySpec struct {
	TargetRef policy.LocalTargetRef `json:"targetRef"`
	// Total is the limit of all clients together.
	// +optional
	Total *RateLimit `json:"total,omitempty"`
	// Identity is the limit of each client identity.
	// +optional
	Identity *RateLimit `json:"identity,omitempty"`
	// Overrides replace Identity for some clients.
	// +optional
	Overrides []RateLimitOverride `json:"overrides,omitempty"`
}

// UnmarshalJSON refuses a spec with an incomplete targetRef.
func (s *HTTPLocalRateLimitPolicySpec) UnmarshalJSON(data []byte) error {
	type plain HTTPLocalRateLimitPolicySpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if s.TargetRef.Kind == "" || s.TargetRef.Name == "" {
		return fmt.Errorf("targetRef: kind and name are required")
	}
	return nil
}

// RateLimit is a number of requests per second.
type RateLimit struct {
	// +kubebuilder:validation:Format=int64
	RequestsPerSecond uint32 `json:"requestsPerSecond"`
}

// UnmarshalJSON refuses a limit without requestsPerSecond, or one outside 32 bits.
func (l *RateLimit) UnmarshalJSON(data []byte) error {
	var wire struct {
		RequestsPerSecond *uint32 `json:"requestsPerSecond"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	if wire.RequestsPerSecond == nil {
		return fmt.Errorf("requestsPerSecond: required")
	}
	l.RequestsPerSecond = *wire.RequestsPerSecond
	return nil
}

// RateLimitOverride is the limit of some clients.
type RateLimitOverride struct {
	// +kubebuilder:validation:Format=int64
	RequestsPerSecond uint32            `json:"requestsPerSecond"`
	ClientRefs        []ClientTargetRef `json:"clientRefs"`
}

// UnmarshalJSON refuses an override without requestsPerSecond or clientRefs.
func (o *RateLimitOverride) UnmarshalJSON(data []byte) error {
	var wire struct {
		RequestsPerSecond *uint32           `json:"requestsPerSecond"`
		ClientRefs        []ClientTargetRef `json:"clientRefs"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	if wire.RequestsPerSecond == nil {
		return fmt.Errorf("overrides: requestsPerSecond: required")
	}
	if wire.ClientRefs == nil {
		return fmt.Errorf("overrides: clientRefs: required")
	}
	o.RequestsPerSecond, o.ClientRefs = *wire.RequestsPerSecond, wire.ClientRefs
	return nil
}

// ClientTargetRef names a client of a rate limit.
type ClientTargetRef struct {
	policy.LocalTargetRef `json:",inline"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}

// HTTPLocalRateLimitPolicyStatus is what the controller says of an HTTPLocalRateLimitPolicy.
type HTTPLocalRateLimitPolicyStatus struct {
	// +optional
	Conditions []policy.Condition `json:"conditions,omitempty"`
	TargetRef  StatusTargetRef    `json:"targetRef"`
}

// StatusTargetRef repeats the target in the status.
type StatusTargetRef struct {
	// +optional
	// +kubebuilder:default=policy.linkerd.io
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Group string `json:"group,omitempty"`
	// +optional
	// +kubebuilder:default=Server
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
