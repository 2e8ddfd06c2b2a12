package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func owner(manager, version string, operation metav1.ManagedFieldsOperationType, sub, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, APIVersion: version, Operation: operation, Subresource: sub,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

// Owners of other versions of the group move to the one that is applied.
func TestInVersion(t *testing.T) {
	rulebook.Covers(t, "B77")
	const (
		apply  = metav1.ManagedFieldsOperationApply
		update = metav1.ManagedFieldsOperationUpdate
	)
	tests := []struct {
		name     string
		in, want []metav1.ManagedFieldsEntry
		moved    bool
	}{
		{name: "none"},
		{
			"the same version",
			[]metav1.ManagedFieldsEntry{owner("a", "g/v2", apply, "", `{"f:x":{}}`)},
			[]metav1.ManagedFieldsEntry{owner("a", "g/v2", apply, "", `{"f:x":{}}`)}, false,
		},
		{
			"an older and a newer one",
			[]metav1.ManagedFieldsEntry{owner("a", "g/v1", apply, "", `{"f:x":{}}`), owner("b", "g/v3", update, "status", `{"f:y":{}}`)},
			[]metav1.ManagedFieldsEntry{owner("a", "g/v2", apply, "", `{"f:x":{}}`), owner("b", "g/v2", update, "status", `{"f:y":{}}`)}, true,
		},
		{
			"another group",
			[]metav1.ManagedFieldsEntry{owner("a", "h/v1", apply, "", `{"f:x":{}}`)},
			[]metav1.ManagedFieldsEntry{owner("a", "h/v1", apply, "", `{"f:x":{}}`)}, false,
		},
		{
			"two of one owner",
			[]metav1.ManagedFieldsEntry{
				owner("a", "g/v1", update, "", `{"f:x":{"f:p":{}}}`), owner("a", "g/v2", update, "", `{"f:x":{"f:q":{}}}`),
				owner("a", "g/v1", apply, "", `{"f:x":{}}`), owner("a", "g/v2", update, "status", `{"f:z":{}}`),
			},
			[]metav1.ManagedFieldsEntry{
				owner("a", "g/v2", update, "", `{"f:x":{"f:p":{},"f:q":{}}}`),
				owner("a", "g/v2", apply, "", `{"f:x":{}}`), owner("a", "g/v2", update, "status", `{"f:z":{}}`),
			}, true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, moved, err := inVersion(test.in, schema.GroupVersion{Group: "g", Version: "v2"})
			if err != nil || moved != test.moved {
				t.Fatalf("moved %v, error %v", moved, err)
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b *metav1.FieldsV1) bool {
				return string(a.GetRawBytes()) == string(b.GetRawBytes())
			})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
