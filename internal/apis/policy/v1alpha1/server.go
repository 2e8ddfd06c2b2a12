package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// Server describes a port of some workloads.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=servers,shortName=srv,scope=Namespaced
// +kubebuilder:deprecatedversion:warning="policy.linkerd.io/v1alpha1 Server is deprecated; use policy.linkerd.io/v1beta1 Server"
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ServerSpec `json:"spec"`
}

// ServerSpec is a port with the workloads that have it.
type ServerSpec struct {
	PodSelector ServerPodSelector  `json:"podSelector"`
	Port        intstr.IntOrString `json:"port"`
	// +optional
	// +kubebuilder:default=unknown
	ProxyProtocol policy.ProxyProtocol `json:"proxyProtocol,omitempty"`
}

// ServerPodSelector has either labels or expressions.
//
// +kubebuilder:validation:ExactlyOneOf=matchLabels;matchExpressions
type ServerPodSelector struct {
	policy.LabelSelector `json:",inline"`
}
