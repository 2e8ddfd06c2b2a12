package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
)

// ExternalWorkload is a workload of the mesh that runs outside the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=externalworkloads,categories=external,scope=Namespaced
// +kubebuilder:printcolumn:name=Identity,type=string,JSONPath=`.spec.meshTls.identity`,description="Identity of the workload"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalWorkload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ExternalWorkloadSpec `json:"spec"`
	// +optional
	Status v1beta1.ExternalWorkloadStatus `json:"status,omitempty"`
}

// ExternalWorkloadSpec is the workload's identity with its ports and addresses.
type ExternalWorkloadSpec struct {
	MeshTLS v1beta1.MeshTLS `json:"meshTls"`
	// +optional
	Ports []v1beta1.PortSpec `json:"ports,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=1
	WorkloadIPs []v1beta1.WorkloadIP `json:"workloadIPs,omitempty"`
}
