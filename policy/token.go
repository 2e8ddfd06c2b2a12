package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Workload names a workload. A Pod and an ExternalWorkload of one name are two.
type Workload struct {
	External        bool
	Namespace, Name string
}

// ParseWorkload reads the workload of a request (policy-inbound 2.1): either a
// JSON object with the keys ns and one of pod and external_workload, or
// "namespace:pod". If both kinds are named, the first counts.
func ParseWorkload(token string) (Workload, error) {
	if strings.HasPrefix(token, "{") {
		return parseJSONWorkload(token)
	}
	namespace, pod, ok := strings.Cut(token, ":")
	if !ok || namespace == "" || pod == "" {
		return Workload{}, errors.New("neither a JSON object nor namespace:pod")
	}
	return Workload{Namespace: namespace, Name: pod}, nil
}

func parseJSONWorkload(token string) (Workload, error) {
	decoder := json.NewDecoder(strings.NewReader(token))
	if _, err := decoder.Token(); err != nil {
		return Workload{}, err
	}
	var workload Workload
	var hasNamespace, hasName bool
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return Workload{}, err
		}
		switch {
		case field == "ns":
			if hasNamespace {
				return Workload{}, errors.New("ns is given twice")
			}
			if workload.Namespace, err = stringValue(decoder); err != nil {
				return Workload{}, err
			}
			hasNamespace = true
		case !hasName && (field == "pod" || field == "external_workload"):
			if workload.Name, err = stringValue(decoder); err != nil {
				return Workload{}, err
			}
			workload.External, hasName = field == "external_workload", true
		default:
			var ignored json.RawMessage
			if err := decoder.Decode(&ignored); err != nil {
				return Workload{}, err
			}
		}
	}
	if _, err := decoder.Token(); err != nil {
		return Workload{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Workload{}, errors.New("something follows the JSON object")
	}
	if !hasNamespace || !hasName {
		return Workload{}, errors.New("ns, or both pod and external_workload, are missing")
	}
	return workload, nil
}

func stringValue(decoder *json.Decoder) (string, error) {
	value, err := decoder.Token()
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%v is no string", value)
	}
	return text, nil
}
