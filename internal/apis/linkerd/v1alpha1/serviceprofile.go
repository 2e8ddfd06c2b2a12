package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
)

// ServiceProfile describes the routes of a service, whose name in DNS is the object's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=serviceprofiles,shortName=sp,scope=Namespaced
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ServiceProfileSpec `json:"spec,omitempty"`
}

// ServiceProfileList is a list of ServiceProfiles.
//
// +kubebuilder:object:root=true
type ServiceProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceProfile `json:"items"`
}

// ServiceProfileSpec is the later version's, with routes required.
type ServiceProfileSpec struct {
	// +optional
	DstOverrides []*v1alpha2.WeightedDst `json:"dstOverrides,omitempty"`
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=string
	OpaquePorts *runtime.RawExtension `json:"opaquePorts,omitempty"`
	// +optional
	RetryBudget *v1alpha2.RetryBudget `json:"retryBudget,omitempty"`
	Routes      []*v1alpha2.RouteSpec `json:"routes"`
}
