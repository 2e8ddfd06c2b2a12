package inbound

import "github.com/linkerd-lite/linkerd-lite/policy"

// workloadKey names a workload. A Pod and an ExternalWorkload of one name are two.
type workloadKey struct {
	external        bool
	namespace, name string
}

// parseToken reads the workload of a request.
func parseToken(token string) (workloadKey, error) {
	w, err := policy.ParseWorkload(token)
	return workloadKey{w.External, w.Namespace, w.Name}, err
}
