package v1beta1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// ServerAuthorization says which clients may use some Servers.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=serverauthorizations,shortName=saz;serverauthz;srvauthz,scope=Namespaced
// +kubebuilder:printcolumn:name=Server,type=string,JSONPath=`.spec.server.name`,description="Server that may be used"
type ServerAuthorization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ServerAuthorizationSpec `json:"spec"`
}

// ServerAuthorizationSpec is the Servers with their clients.
type ServerAuthorizationSpec struct {
	Server ServerRef `json:"server"`
	Client Client    `json:"client"`
}

// UnmarshalJSON refuses a spec without server or client.
func (s *ServerAuthorizationSpec) UnmarshalJSON(data []byte) error {
	var wire struct {
		Server *ServerRef `json:"server"`
		Client *Client    `json:"client"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	if wire.Server == nil {
		return fmt.Errorf("server: required")
	}
	if wire.Client == nil {
		return fmt.Errorf("client: required")
	}
	s.Server, s.Client = *wire.Server, *wire.Client
	return nil
}

// ServerRef names one Server or selects some.
//
// +kubebuilder:validation:ExactlyOneOf=name;selector
type ServerRef struct {
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// +optional
	Selector *policy.LabelSelector `json:"selector,omitempty"`
}

// Client describes who may connect.
type Client struct {
	// +optional
	Networks []policy.Network `json:"networks,omitempty"`
	// +optional
	Unauthenticated bool `json:"unauthenticated,omitempty"`
	// +optional
	MeshTLS *MeshTLS `json:"meshTLS,omitempty"`
}

// MeshTLS describes clients that use the mesh's TLS.
type MeshTLS struct {
	// +optional
	UnauthenticatedTLS bool `json:"unauthenticatedTLS,omitempty"`
	// +optional
	Identities []Identity `json:"identities,omitempty"`
	// +optional
	ServiceAccounts []ServiceAccountRef `json:"serviceAccounts,omitempty"`
}

// Identity is a DNS-like name, or a suffix of such names after "*.".
//
// +kubebuilder:validation:Pattern=`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Identity string

// ServiceAccountRef names a ServiceAccount, in the namespace of the ServerAuthorization unless Namespace is set.
type ServiceAccountRef struct {
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}
