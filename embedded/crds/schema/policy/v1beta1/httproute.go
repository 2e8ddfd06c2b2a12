package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/crds/schema/policy"
)

// HTTPRoute routes HTTP requests.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=httproutes,scope=Namespaced
// +kubebuilder:printcolumn:name=Hostnames,type=string,JSONPath=`.spec.hostnames`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type HTTPRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec policy.OldSpec `json:"spec"`
	// +optional
	Status policy.Status `json:"status,omitempty"`
}
