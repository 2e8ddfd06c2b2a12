package manifests

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
		want rejection
	}{
		{
			"invalid",
			apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(1).Child("port"), 70000, "must be between 1 and 65535")}),
			rejection{message: "spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535", field: "spec.ports[1].port", certain: true},
		},
		{
			"immutable",
			apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", field.ErrorList{field.Forbidden(field.NewPath("spec"), "field is immutable")}),
			rejection{message: "spec: Forbidden: field is immutable; to change it delete the object, it is then applied anew when its file is saved", field: "spec", certain: true},
		},
		{
			"unknown field of a built-in kind",
			failedWith(500, `failed to create typed patch object (ns/a; /v1, Kind=Service): .spec.ports[port=80,protocol="TCP"].prot: field not declared in schema`),
			rejection{message: `.spec.ports[port=80,protocol="TCP"].prot: field not declared in schema`, field: `spec.ports[port=80,protocol="TCP"].prot`},
		},
		{
			"several types are wrong, in any order",
			failedWith(500, "failed to create typed patch object (ns/a; /v1, Kind=Service): errors:\n  .spec.b: expected string, got &value.valueUnstructured{Value:true}\n  .metadata.a: expected string, got &value.valueUnstructured{Value:1}"),
			rejection{message: ".metadata.a: expected string, got 1; .spec.b: expected string, got true", field: "metadata.a"},
		},
		{
			"unknown field of a custom kind",
			apierrors.NewBadRequest(`strict decoding error: unknown field "spec.prt"`),
			rejection{message: `strict decoding error: unknown field "spec.prt"`, field: "spec.prt", certain: true},
		},
		{
			"missing namespace",
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"),
			rejection{message: `namespace "x" does not exist; the object is applied when it does`, namespace: "x", certain: true},
		},
		{
			"kind is gone",
			apierrors.NewGenericServerResponse(404, "PATCH", services, "a", "", 0, true),
			rejection{message: "the server could not find the requested resource (patch services a)", kindGone: true, transient: true, certain: true},
		},
		{
			"namespace ends",
			&apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "forbidden", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}},
			rejection{message: "forbidden", transient: true, certain: true},
		},
		{"conflict", apierrors.NewConflict(services, "a", errors.New("x")), rejection{message: `Operation cannot be fulfilled on services "a": x`, transient: true, certain: true}},
		{"denied", apierrors.NewForbidden(services, "a", errors.New("no")), rejection{message: `services "a" is forbidden: no`, certain: true}},
		{"webhook down", apierrors.NewInternalError(errors.New("failed calling webhook")), rejection{message: "Internal error occurred: failed calling webhook", transient: true}},
		{"no answer", fmt.Errorf("read: %w", errors.New("connection refused")), rejection{message: "read: connection refused", transient: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, reject(test.err), cmp.AllowUnexported(rejection{})); diff != "" {
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
		r        rejection
		attempts int
		want     time.Duration
	}{
		{"transient, first", rejection{transient: true}, 0, 100 * time.Millisecond},
		{"transient, later", rejection{transient: true}, 30, 2 * time.Second},
		{"refused, first", rejection{}, 0, 2 * time.Second},
		{"refused, later", rejection{}, 30, time.Minute},
		{"no namespace", rejection{namespace: "x"}, 30, 500 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.r.pause(test.attempts); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
