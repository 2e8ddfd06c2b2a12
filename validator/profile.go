package validator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
)

// profile is a ServiceProfile in the shape that Linkerd's validator decodes, where unknown fields are errors. It is not
// the type that profiles are read with later: that one is lenient.
type profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              spec `json:"spec"`
}

type spec struct {
	Routes       []*route            `json:"routes"`
	RetryBudget  *retryBudget        `json:"retryBudget"`
	DstOverrides []*weightedDst      `json:"dstOverrides"`
	OpaquePorts  map[uint32]struct{} `json:"opaquePorts"`
}

type route struct {
	Name            string           `json:"name"`
	Condition       *requestMatch    `json:"condition"`
	ResponseClasses []*responseClass `json:"responseClasses"`
	IsRetryable     bool             `json:"isRetryable"`
	Timeout         string           `json:"timeout"`
}

type requestMatch struct {
	All       []*requestMatch `json:"all"`
	Any       []*requestMatch `json:"any"`
	Not       *requestMatch   `json:"not"`
	PathRegex string          `json:"pathRegex"`
	Method    string          `json:"method"`
}

type responseClass struct {
	Condition *responseMatch `json:"condition"`
	IsFailure bool           `json:"isFailure"`
}

type responseMatch struct {
	All    []*responseMatch `json:"all"`
	Any    []*responseMatch `json:"any"`
	Not    *responseMatch   `json:"not"`
	Status *statusRange     `json:"status"`
}

type statusRange struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

type retryBudget struct {
	RetryRatio          float32 `json:"retryRatio"`
	MinRetriesPerSecond uint32  `json:"minRetriesPerSecond"`
	TTL                 string  `json:"ttl"`
}

type weightedDst struct {
	Authority string `json:"authority"`
	Weight    weight `json:"weight"`
}

// weight is a quantity whose error names the field.
type weight struct{ resource.Quantity }

func (w *weight) UnmarshalJSON(data []byte) error {
	err := linkerdv1alpha2.CheckWeight(data)
	if err == nil {
		err = w.Quantity.UnmarshalJSON(data)
	}
	if err != nil {
		return fmt.Errorf("json: cannot unmarshal %s into Go struct field profile.spec.dstOverrides.weight of type Quantity: %w", data, err)
	}
	return nil
}
