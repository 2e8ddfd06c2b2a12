package v1alpha2

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linkerd-lite/linkerd-lite/internal/quantity"
)

// ServiceProfile describes the routes of a service, whose name in DNS is the object's name.
//
// +kubebuilder:object:root=true
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ServiceProfileSpec `json:"spec,omitempty"`
}

// ServiceProfileSpec is the routes of a service with its retry budget and traffic split.
type ServiceProfileSpec struct {
	DstOverrides []*WeightedDst `json:"dstOverrides,omitempty"`
	// OpaquePorts is kept as written and never read: its schema is a list, while Linkerd's type is a map.
	OpaquePorts *runtime.RawExtension `json:"opaquePorts,omitempty"`
	RetryBudget *RetryBudget          `json:"retryBudget,omitempty"`
	Routes      []*RouteSpec          `json:"routes,omitempty"`
}

// WeightedDst is an authority with its part of the traffic.
type WeightedDst struct {
	Authority string            `json:"authority,omitempty"`
	Weight    resource.Quantity `json:"weight,omitempty"`
}

// UnmarshalJSON decodes as usual what passes CheckWeight.
func (d *WeightedDst) UnmarshalJSON(data []byte) error {
	type plain WeightedDst
	var raw struct {
		Weight json.RawMessage `json:"weight"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if err := CheckWeight(raw.Weight); err != nil {
		return err
	}
	return json.Unmarshal(data, (*plain)(d))
}

// CheckWeight refuses weights, in JSON, that a Quantity would compute for
// minutes and gigabytes, such as 1e-1000000000. The schema takes them.
func CheckWeight(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	if err := quantity.Check(text); err != nil {
		return fmt.Errorf("weight: %w", err)
	}
	return nil
}

// RetryBudget limits retries to a part of the requests.
type RetryBudget struct {
	MinRetriesPerSecond uint32  `json:"minRetriesPerSecond"`
	RetryRatio          float32 `json:"retryRatio"`
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
	Condition   *RequestMatch `json:"condition"`
	IsRetryable bool          `json:"isRetryable,omitempty"`
	Name        string        `json:"name"`
	// Timeout is a duration of Go's syntax, or empty.
	Timeout         string           `json:"timeout,omitempty"`
	ResponseClasses []*ResponseClass `json:"responseClasses,omitempty"`
}

// RequestMatch is a condition on a request.
type RequestMatch struct {
	All       []*RequestMatch `json:"all,omitempty"`
	Any       []*RequestMatch `json:"any,omitempty"`
	Not       *RequestMatch   `json:"not,omitempty"`
	PathRegex string          `json:"pathRegex,omitempty"`
	Method    string          `json:"method,omitempty"`
}

// ResponseClass is a class of responses.
type ResponseClass struct {
	Condition *ResponseMatch `json:"condition"`
	IsFailure bool           `json:"isFailure,omitempty"`
}

// ResponseMatch is a condition on a response.
type ResponseMatch struct {
	All    []*ResponseMatch `json:"all,omitempty"`
	Any    []*ResponseMatch `json:"any,omitempty"`
	Not    *ResponseMatch   `json:"not,omitempty"`
	Status *Range           `json:"status,omitempty"`
}

// Range is a range of HTTP status codes; zero leaves a side open.
type Range struct {
	Max uint32 `json:"max,omitempty"`
	Min uint32 `json:"min,omitempty"`
}

// UnmarshalJSON decodes as usual. It exists so that conversion from unstructured content, which wraps negative
// numbers, goes through it.
func (r *Range) UnmarshalJSON(data []byte) error {
	type plain Range
	return json.Unmarshal(data, (*plain)(r))
}
