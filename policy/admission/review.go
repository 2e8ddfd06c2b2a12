package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
)

// Review returns the checks as a function that answers admission requests. Only the new object counts, neither the
// operation nor the user. Odd says what else is odd about an object that is admitted; it may be nil.
func Review(odd func(*admissionv1.AdmissionRequest) []string) webhook.ReviewFunc {
	return func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		kind := schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
		if !Knows(kind) {
			return webhook.Unusable("unsupported kind: %s.%s.%s", request.Kind.Group, request.Kind.Version, request.Kind.Kind)
		}
		found := Check(kind, request.Namespace, request.Object.Raw)
		if refusal := problems.Refusal(found); refusal != nil {
			return webhook.Deny("%s", refusal.WithoutObject())
		}
		var warnings []string
		for _, w := range found {
			warnings = append(warnings, w.WithoutObject())
		}
		if odd != nil {
			warnings = append(warnings, odd(request)...)
		}
		return webhook.Allow(warnings...)
	}
}
