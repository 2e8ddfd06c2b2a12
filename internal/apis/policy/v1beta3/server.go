package v1beta3

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// Server describes a port of some workloads.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=servers,shortName=srv,scope=Namespaced
// +kubebuilder:printcolumn:name=Port,type=string,JSONPath=`.spec.port`,description="Port that the Server describes"
// +kubebuilder:printcolumn:name=Protocol,type=string,JSONPath=`.spec.proxyProtocol`,description="Protocol of the port"
// +kubebuilder:printcolumn:name="Access Policy",type=string,JSONPath=`.spec.accessPolicy`,description="Policy when no rule matches"
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
	// Port is a number, or the name of a container port.
	Port intstr.IntOrString `json:"port"`
	// +optional
	// +kubebuilder:default=unknown
	ProxyProtocol policy.ProxyProtocol `json:"proxyProtocol,omitempty"`
	// AccessPolicy is used when no rule matches. The schema takes any text; admission does not.
	// +optional
	// +kubebuilder:default=deny
	AccessPolicy string `json:"accessPolicy,omitempty"`
}

// UnmarshalJSON refuses a spec without exactly one selector or with a port outside 1 to 65535.
func (s *ServerSpec) UnmarshalJSON(data []byte) error {
	type plain ServerSpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if (s.PodSelector == nil) == (s.ExternalWorkloadSelector == nil) {
		return fmt.Errorf("exactly one of podSelector and externalWorkloadSelector is required")
	}
	return policy.CheckPort(s.Port)
}
