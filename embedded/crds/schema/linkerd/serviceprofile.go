package linkerd

import "k8s.io/apimachinery/pkg/api/resource"

// WeightedDst is an authority with its part of the traffic.
type WeightedDst struct {
	// +optional
	Authority string `json:"authority,omitempty"`
	// +optional
	Weight resource.Quantity `json:"weight,omitempty"`
}

// RetryBudget limits retries to a part of the requests.
type RetryBudget struct {
	MinRetriesPerSecond int32 `json:"minRetriesPerSecond"`
	// +kubebuilder:validation:Format=float
	RetryRatio float32 `json:"retryRatio"`
	TTL        string  `json:"ttl"`
}

// Route is a class of requests.
type Route struct {
	Condition RequestMatch `json:"condition"`
	// +optional
	IsRetryable bool   `json:"isRetryable,omitempty"`
	Name        string `json:"name"`
	// +optional
	Timeout string `json:"timeout,omitempty"`
	// +optional
	ResponseClasses []ResponseClass `json:"responseClasses,omitempty"`
}

// RequestMatch is a condition on a request. Not is a list here, though it is read as one condition.
type RequestMatch struct {
	// +optional
	All []Condition `json:"all,omitempty"`
	// +optional
	Any []Condition `json:"any,omitempty"`
	// +optional
	Not []Condition `json:"not,omitempty"`
	// +optional
	PathRegex string `json:"pathRegex,omitempty"`
	// +optional
	Method string `json:"method,omitempty"`
}

// ResponseClass is a class of responses.
type ResponseClass struct {
	Condition ResponseMatch `json:"condition"`
	// +optional
	IsFailure bool `json:"isFailure,omitempty"`
}

// ResponseMatch is a condition on a response.
type ResponseMatch struct {
	// +optional
	All []Condition `json:"all,omitempty"`
	// +optional
	Any []Condition `json:"any,omitempty"`
	// +optional
	Not Condition `json:"not,omitempty"`
	// +optional
	Status Range `json:"status,omitempty"`
}

// Range is a range of status codes.
type Range struct {
	// +optional
	Max int32 `json:"max,omitempty"`
	// +optional
	Min int32 `json:"min,omitempty"`
}

// Condition is a nested condition, which the schema does not describe.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Condition struct{}
