package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
)

// ServerAuthorization says which clients may use some Servers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=serverauthorizations,shortName=saz;serverauthz;srvauthz,scope=Namespaced
// +kubebuilder:deprecatedversion:warning="policy.linkerd.io/v1alpha1 ServerAuthorization is deprecated; use policy.linkerd.io/v1beta1 ServerAuthorization"
type ServerAuthorization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec v1beta1.ServerAuthorizationSpec `json:"spec"`
}
