package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExternalWorkload is a workload of the mesh that runs outside the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=externalworkloads,categories=external,scope=Namespaced
// +kubebuilder:printcolumn:name=Identity,type=string,JSONPath=`.spec.meshTLS.identity`,description="Identity of the workload"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalWorkload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ExternalWorkloadSpec `json:"spec"`
	// +optional
	Status ExternalWorkloadStatus `json:"status,omitempty"`
}

// ExternalWorkloadSpec is the workload's identity with its ports and addresses.
type ExternalWorkloadSpec struct {
	MeshTLS MeshTLS `json:"meshTLS"`
	// +optional
	Ports []PortSpec `json:"ports,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=2
	WorkloadIPs []WorkloadIP `json:"workloadIPs,omitempty"`
}

// MeshTLS is the identity of a workload with the server name to use for it.
type MeshTLS struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Identity string `json:"identity"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName"`
}

// PortSpec is a port of a workload.
type PortSpec struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// +optional
	// +kubebuilder:default=TCP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// WorkloadIP is an address of a workload.
type WorkloadIP struct {
	// +optional
	IP string `json:"ip,omitempty"`
}

// ExternalWorkloadStatus is the state of a workload.
type ExternalWorkloadStatus struct {
	// +optional
	Conditions []WorkloadCondition `json:"conditions,omitempty"`
}

// WorkloadConditionReady is the type of the condition that makes a workload an endpoint.
const WorkloadConditionReady = "Ready"

// WorkloadCondition is one aspect of a workload's state.
type WorkloadCondition struct {
	// +optional
	LastProbeTime metav1.Time `json:"lastProbeTime,omitempty"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Type string `json:"type,omitempty"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	Reason string `json:"reason,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}
