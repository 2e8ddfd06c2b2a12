package inbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// workloadKey names a workload. A Pod and an ExternalWorkload of one name are two.
type workloadKey struct {
	external        bool
	namespace, name string
}

// parseToken reads the workload of a request (policy-inbound 2.1): either a
// JSON object with the keys ns and one of pod and external_workload, or
// "namespace:pod". If both kinds are named, the first counts.
func parseToken(token string) (workloadKey, error) {
	if strings.HasPrefix(token, "{") {
		return parseJSONToken(token)
	}
	namespace, pod, ok := strings.Cut(token, ":")
	if !ok || namespace == "" || pod == "" {
		return workloadKey{}, errors.New("neither a JSON object nor namespace:pod")
	}
	return workloadKey{namespace: namespace, name: pod}, nil
}

func parseJSONToken(token string) (workloadKey, error) {
	decoder := json.NewDecoder(strings.NewReader(token))
	if _, err := decoder.Token(); err != nil {
		return workloadKey{}, err
	}
	var key workloadKey
	var hasNamespace, hasName bool
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return workloadKey{}, err
		}
		switch field {
		case "ns":
			if key.namespace, err = stringValue(decoder); err != nil {
				return workloadKey{}, err
			}
			hasNamespace = true
		case "pod", "external_workload":
			name, err := stringValue(decoder)
			if err != nil {
				return workloadKey{}, err
			}
			if !hasName {
				key.external, key.name, hasName = field == "external_workload", name, true
			}
		default:
			var ignored json.RawMessage
			if err := decoder.Decode(&ignored); err != nil {
				return workloadKey{}, err
			}
		}
	}
	if _, err := decoder.Token(); err != nil {
		return workloadKey{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return workloadKey{}, errors.New("something follows the JSON object")
	}
	if !hasNamespace || !hasName {
		return workloadKey{}, errors.New("ns, or both pod and external_workload, are missing")
	}
	return key, nil
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
