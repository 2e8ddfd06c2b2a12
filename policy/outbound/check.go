package outbound

import "errors"

// CheckHTTPAnnotations says what is wrong with the retry and timeout
// annotations of an HTTP route; the error names the annotation (P61-P63).
func CheckHTTPAnnotations(annotations map[string]string) error {
	_, timeoutErr := parseTimeouts(annotations)
	_, retryErr := parseHTTPRetry(annotations)
	return errors.Join(timeoutErr, retryErr)
}

// CheckGRPCAnnotations is CheckHTTPAnnotations for a gRPC route.
func CheckGRPCAnnotations(annotations map[string]string) error {
	_, timeoutErr := parseTimeouts(annotations)
	_, retryErr := parseGRPCRetry(annotations)
	return errors.Join(timeoutErr, retryErr)
}
