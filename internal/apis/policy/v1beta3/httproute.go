package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// HTTPRoute routes HTTP requests. It has the shape of the Gateway API's HTTPRoute, so that both can be read by the same code.
// Its schema is narrower: fewer filters, durations of Go's syntax, and no rules across fields.
//
// +kubebuilder:object:root=true
type HTTPRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec gatewayv1.HTTPRouteSpec `json:"spec"`
	// +optional
	Status gatewayv1.HTTPRouteStatus `json:"status,omitempty"`
}
