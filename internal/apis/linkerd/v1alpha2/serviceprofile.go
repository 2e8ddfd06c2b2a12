package v1alpha2

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ServiceProfile describes the routes of a service, whose name in DNS is the object's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

// ServiceProfileSpec is the routes of a service with its retry budget and traffic split.
type ServiceProfileSpec struct {
	// +optional
	DstOverrides []*WeightedDst `json:"dstOverrides,omitempty"`
	// OpaquePorts is kept as written and never read: its schema is a list, while Linkerd's type is a map.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=string
	OpaquePorts *runtime.RawExtension `json:"opaquePorts,omitempty"`
	// +optional
	RetryBudget *RetryBudget `json:"retryBudget,omitempty"`
	// +optional
	Routes []*RouteSpec `json:"routes,omitempty"`
}

// WeightedDst is an authority with its part of the traffic.
type WeightedDst struct {
	// +optional
	Authority string `json:"authority,omitempty"`
	// +optional
	Weight resource.Quantity `json:"weight,omitempty"`
}

// RetryBudget limits retries to a part of the requests.
type RetryBudget struct {
	MinRetriesPerSecond uint32 `json:"minRetriesPerSecond"`
	// +kubebuilder:validation:Format=float
	RetryRatio float32 `json:"retryRatio"`
	// TTL is a duration of Go's syntax.
	TTL string `json:"ttl"`
}

// UnmarshalJSON decodes as usual. It exists so that conversion from unstructured content, which wraps negative
// numbers, goes through it.
func (b *RetryBudget) UnmarshalJSON(data []byte) error {
	type plain RetryBudget
	return json.Unmarshal(data, (*plain)(b))
}

// RouteSpec is a class of requests.
type RouteSpec struct {
	Condition *RequestMatch `json:"condition"`
	// +optional
	IsRetryable bool   `json:"isRetryable,omitempty"`
	Name        string `json:"name"`
	// Timeout is a duration of Go's syntax, or empty.
	// +optional
	Timeout string `json:"timeout,omitempty"`
	// +optional
	ResponseClasses []*ResponseClass `json:"responseClasses,omitempty"`
}

// RequestMatch is a condition on a request. The schema knows its first level only, and there declares Not as a list.
type RequestMatch struct {
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	All []*RequestMatch `json:"all,omitempty"`
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Any []*RequestMatch `json:"any,omitempty"`
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Not *RequestMatch `json:"not,omitempty"`
	// +optional
	PathRegex string `json:"pathRegex,omitempty"`
	// +optional
	Method string `json:"method,omitempty"`
}

// ResponseClass is a class of responses.
type ResponseClass struct {
	Condition *ResponseMatch `json:"condition"`
	// +optional
	IsFailure bool `json:"isFailure,omitempty"`
}

// ResponseMatch is a condition on a response. The schema knows its first level only.
type ResponseMatch struct {
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	All []*ResponseMatch `json:"all,omitempty"`
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Any []*ResponseMatch `json:"any,omitempty"`
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Not *ResponseMatch `json:"not,omitempty"`
	// +optional
	Status *Range `json:"status,omitempty"`
}

// Range is a range of HTTP status codes; zero leaves a side open.
type Range struct {
	// +optional
	Max uint32 `json:"max,omitempty"`
	// +optional
	Min uint32 `json:"min,omitempty"`
}

// UnmarshalJSON decodes as usual. It exists so that conversion from unstructured content, which wraps negative
// numbers, goes through it.
func (r *Range) UnmarshalJSON(data []byte) error {
	type plain Range
	return json.Unmarshal(data, (*plain)(r))
}
