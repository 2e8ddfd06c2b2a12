package apply

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestReject(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	tests := []struct {
		name string
		err  error
		want Rejection
	}{
		{
			"invalid",
			apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(1).Child("port"), 70000, "must be between 1 and 65535")}),
			Rejection{Message: "spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535", Field: "spec.ports[1].port", Certain: true},
		},
		{
			"immutable",
			apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", field.ErrorList{field.Forbidden(field.NewPath("spec"), "field is immutable")}),
			Rejection{Message: "spec: Forbidden: field is immutable; to change it delete the object, it is then applied anew when its file is saved", Field: "spec", Certain: true},
		},
		{
			"unknown field of a built-in kind",
			failedWith(500, `failed to create typed patch object (ns/a; /v1, Kind=Service): .spec.ports[port=80,protocol="TCP"].prot: field not declared in schema`),
			Rejection{Message: `.spec.ports[port=80,protocol="TCP"].prot: field not declared in schema`, Field: `spec.ports[port=80,protocol="TCP"].prot`},
		},
		{
			"several types are wrong, in any order",
			failedWith(500, "failed to create typed patch object (ns/a; /v1, Kind=Service): errors:\n  .spec.b: expected string, got &value.valueUnstructured{Value:true}\n  .metadata.a: expected string, got &value.valueUnstructured{Value:1}"),
			Rejection{Message: ".metadata.a: expected string, got 1; .spec.b: expected string, got true", Field: "metadata.a"},
		},
		{
			"unknown field of a custom kind",
			apierrors.NewBadRequest(`strict decoding error: unknown field "spec.prt"`),
			Rejection{Message: `strict decoding error: unknown field "spec.prt"`, Field: "spec.prt", Certain: true},
		},
		{
			"missing namespace",
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"),
			Rejection{Message: `namespace "x" does not exist; the object is applied when it does`, Namespace: "x", Certain: true},
		},
		{
			"kind is gone",
			apierrors.NewGenericServerResponse(404, "PATCH", services, "a", "", 0, true),
			Rejection{Message: "the server could not find the requested resource (patch services a)", KindGone: true, Transient: true, Certain: true},
		},
		{
			"namespace ends",
			&apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "forbidden", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}},
			Rejection{Message: "forbidden", Transient: true, Certain: true},
		},
		{"conflict", apierrors.NewConflict(services, "a", errors.New("x")), Rejection{Message: `Operation cannot be fulfilled on services "a": x`, Transient: true, Certain: true}},
		{"denied", apierrors.NewForbidden(services, "a", errors.New("no")), Rejection{Message: `services "a" is forbidden: no`, Certain: true}},
		{"webhook down", apierrors.NewInternalError(errors.New("failed calling webhook")), Rejection{Message: "Internal error occurred: failed calling webhook", Transient: true}},
		{"no answer", fmt.Errorf("read: %w", errors.New("connection refused")), Rejection{Message: "read: connection refused", Transient: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Reject(test.err), cmp.AllowUnexported(Rejection{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func failedWith(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
}

func TestPause(t *testing.T) {
	tests := []struct {
		name     string
		r        Rejection
		attempts int
		want     time.Duration
	}{
		{"transient, first", Rejection{Transient: true}, 0, 100 * time.Millisecond},
		{"transient, later", Rejection{Transient: true}, 30, 2 * time.Second},
		{"refused, first", Rejection{}, 0, 2 * time.Second},
		{"refused, later", Rejection{}, 30, time.Minute},
		{"no namespace", Rejection{Namespace: "x"}, 30, 500 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.r.Pause(test.attempts); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
