package gateway

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const defaultWeight = 1

// Backend is where a rule sends requests, as far as it does not depend on the
// parent and on what exists. Its namespace is empty where it is the parent's,
// not the route's (P192). Immutable.
type Backend struct {
	Reference
	// Port is 0 where an EgressNetwork's is that of the original destination.
	Port   uint16
	Weight uint32
	// Failure says why no request can be sent there, whatever exists. It is
	// told to clients.
	Failure string
	Filters []Filter
}

// readBackend reads a backend with its filters. The order of the checks
// decides what clients are told (policy-outbound 5.3).
func readBackend[F any](ref gatewayv1.BackendRef, filters []F, convert func(*field.Path, F) (Filter, *field.Error)) Backend {
	b := Backend{Reference: backendReference(ref.BackendObjectReference), Port: portOf(ref.Port), Weight: defaultWeight}
	if ref.Weight != nil {
		b.Weight = uint32(max(*ref.Weight, 0))
	}
	var err *field.Error
	if b.Kind == OtherKind {
		b.Failure = "unsupported backend type " + printed(ref.Group, CoreGroup) + " " + printed(ref.Kind, "<empty>")
	} else if b.Filters, err = convertEach(field.NewPath("filters"), filters, convert); err != nil {
		b.Failure = "unsupported backend filter: " + err.Detail
	} else if b.Kind == Service && b.Port == 0 {
		b.Failure = "missing port for backend Service " + b.Name
	}
	return b
}

// readPlainBackend reads a backend of a kind of route that has no filters.
func readPlainBackend(ref gatewayv1.BackendRef) Backend {
	return readBackend[struct{}](ref, nil, nil)
}

func readBackends[R any](refs []R, read func(R) Backend) []Backend {
	var backends []Backend
	for _, ref := range refs {
		backends = append(backends, read(ref))
	}
	return backends
}
