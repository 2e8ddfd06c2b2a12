package validator

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// maxWarnings and maxWarning bound what an answer says: the API server cuts longer ones without a sign.
const (
	maxWarnings = 10
	maxWarning  = 250
)

// Review returns the check as a function that answers admission requests. Only the object counts, neither the operation
// nor the user.
func Review(options Options) func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		found := Validate(request.Object.Raw, options)
		if refusal := problems.Refusal(found); refusal != nil {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{
				Code:    http.StatusBadRequest,
				Message: fmt.Sprintf("ServiceProfile %q: %s", cmp.Or(refusal.Object.Name, request.Name), refusal.WithoutObject()),
			}}
		}
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: texts(found)}
	}
}

func texts(warnings []problems.Problem) []string {
	var texts []string
	for i, warning := range warnings {
		if i == maxWarnings {
			return append(texts, fmt.Sprintf("and %d more", len(warnings)-i))
		}
		text := warning.WithoutObject()
		if len(text) > maxWarning {
			text = strings.ToValidUTF8(text[:maxWarning-3], "") + "..."
		}
		texts = append(texts, text)
	}
	return texts
}
