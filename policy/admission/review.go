package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
)

// Review returns the checks as a function that answers admission requests. Only the new object counts, neither the
// operation nor the user.
func Review(options Options) webhook.ReviewFunc {
	return func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		kind := schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
		if !Knows(kind) {
			return webhook.Unusable("unsupported kind: %s.%s.%s", request.Kind.Group, request.Kind.Version, request.Kind.Kind)
		}
		if problem := Check(kind, request.Namespace, request.Object.Raw, options); problem != nil {
			return webhook.Deny("%s", problem)
		}
		return webhook.Allow()
	}
}
