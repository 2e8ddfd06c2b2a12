package apply

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// saysSomething reports whether a status of a manifest is more than what tools print
// for an object that has none yet, which is {} for a Pod and a tree of empty texts for a Node.
func saysSomething(kind schema.GroupKind, status any) bool {
	fields, ok := status.(map[string]any)
	if ok && kind == (schema.GroupKind{Kind: "Pod"}) {
		// A Pod says so from its creation, before anybody has looked at it.
		fields = maps.Clone(fields)
		delete(fields, "qosClass")
		delete(fields, "observedGeneration")
		if fields["phase"] == "Pending" {
			delete(fields, "phase")
		}
		status = fields
	}
	return !isZero(status)
}

// isZero reports whether a value, and all in it, is what it would be if it were not written.
func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case json.Number:
		return v == "0"
	case map[string]any:
		for _, field := range v {
			if !isZero(field) {
				return false
			}
		}
		return true
	case []any:
		for _, item := range v {
			if !isZero(item) {
				return false
			}
		}
		return true
	}
	return false
}
