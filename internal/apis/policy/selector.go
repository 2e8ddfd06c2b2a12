package policy

import (
	"encoding/json"
	"fmt"
	"slices"
)

// LabelSelector selects by labels. An empty selector matches everything.
type LabelSelector struct {
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// +optional
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is one condition on one label.
//
// Values is nil when the field is absent, which differs from an empty list: Exists and DoesNotExist hold only
// without values.
type LabelSelectorRequirement struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	// +optional
	Values []string `json:"values,omitempty"`
}

// Operator relates a label to the values of a requirement.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type Operator string

// The operators, case-sensitive.
const (
	OperatorIn           Operator = "In"
	OperatorNotIn        Operator = "NotIn"
	OperatorExists       Operator = "Exists"
	OperatorDoesNotExist Operator = "DoesNotExist"
)

// UnmarshalJSON refuses unknown operators: an object with one does not decode.
func (o *Operator) UnmarshalJSON(data []byte) error {
	return unmarshalEnum(data, "operator", o, OperatorIn, OperatorNotIn, OperatorExists, OperatorDoesNotExist)
}

// Matches tells whether labels satisfy all of the selector. In and NotIn without a values field, and Exists and
// DoesNotExist with one, never match.
func (s *LabelSelector) Matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !s.MatchExpressions[i].matches(labels) {
			return false
		}
	}
	return true
}

func (r *LabelSelectorRequirement) matches(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case OperatorIn:
		return r.Values != nil && ok && slices.Contains(r.Values, value)
	case OperatorNotIn:
		return r.Values != nil && (!ok || !slices.Contains(r.Values, value))
	case OperatorExists:
		return r.Values == nil && ok
	case OperatorDoesNotExist:
		return r.Values == nil && !ok
	}
	return false
}

// unmarshalEnum decodes a JSON string into out if it is one of the allowed values; field is used in the error.
func unmarshalEnum[T ~string](data []byte, field string, out *T, allowed ...T) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if string(data) == "null" {
		return nil
	}
	if !slices.Contains(allowed, T(text)) {
		return fmt.Errorf("%s: %q is not one of %q", field, text, allowed)
	}
	*out = T(text)
	return nil
}
