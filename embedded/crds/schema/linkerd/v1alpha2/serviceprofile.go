package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/crds/schema/linkerd"
)

// ServiceProfile describes the routes of a service.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=serviceprofiles,shortName=sp,scope=Namespaced
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec Spec `json:"spec,omitempty"`
}

// Spec is the routes of a service with its retry budget and traffic split.
type Spec struct {
	// +optional
	DstOverrides []linkerd.WeightedDst `json:"dstOverrides,omitempty"`
	// +optional
	OpaquePorts []string `json:"opaquePorts,omitempty"`
	// +optional
	RetryBudget *linkerd.RetryBudget `json:"retryBudget,omitempty"`
	// +optional
	Routes []linkerd.Route `json:"routes,omitempty"`
}
