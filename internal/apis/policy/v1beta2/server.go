package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// Server describes a port of some workloads.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=servers,shortName=srv,scope=Namespaced
// +kubebuilder:printcolumn:name=Port,type=string,JSONPath=`.spec.port`,description="Port that the Server describes"
// +kubebuilder:printcolumn:name=Protocol,type=string,JSONPath=`.spec.proxyProtocol`,description="Protocol of the port"
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ServerSpec `json:"spec"`
}

// ServerSpec is a port with the workloads that have it.
//
// +kubebuilder:validation:ExactlyOneOf=podSelector;externalWorkloadSelector
type ServerSpec struct {
	// +optional
	PodSelector *policy.LabelSelector `json:"podSelector,omitempty"`
	// +optional
	ExternalWorkloadSelector *policy.LabelSelector `json:"externalWorkloadSelector,omitempty"`
	Port                     intstr.IntOrString    `json:"port"`
	// +optional
	// +kubebuilder:default=unknown
	ProxyProtocol policy.ProxyProtocol `json:"proxyProtocol,omitempty"`
}
