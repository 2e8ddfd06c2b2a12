package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Who changed an object since it was applied is somebody else than this program, and wrote
// after that.
func TestLastWriter(t *testing.T) {
	rulebook.Covers(t, "B89")
	at := func(second int64, manager string, operation metav1.ManagedFieldsOperationType, sub string) metav1.ManagedFieldsEntry {
		written := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: sub, Time: &written}
	}
	update := func(second int64, manager string) metav1.ManagedFieldsEntry {
		return at(second, manager, metav1.ManagedFieldsOperationUpdate, "")
	}
	applied := at(100, FieldManager, metav1.ManagedFieldsOperationApply, "")
	for _, row := range []struct {
		name    string
		managed []metav1.ManagedFieldsEntry
		want    string
	}{
		{"kubectl", []metav1.ManagedFieldsEntry{applied, update(100, "kubectl-edit")}, "kubectl-edit"},
		{"the newest of two", []metav1.ManagedFieldsEntry{update(103, "b"), applied, update(102, "a")}, "b"},
		{"a controller of ours, as the autoscaler", []metav1.ManagedFieldsEntry{applied, update(101, "kube-controller-manager")}, ""},
		{"another part of ours", []metav1.ManagedFieldsEntry{applied, update(101, "linkerd-lite-kubelet")}, ""},
		{"kubectl, and then a controller of ours, as of Deployments", []metav1.ManagedFieldsEntry{applied, update(101, "kubectl-set"), update(102, "kube-controller-manager")}, "kubectl-set"},
		{"somebody before the apply, and then a controller of ours", []metav1.ManagedFieldsEntry{applied, update(99, "kubectl-label"), update(102, "kube-controller-manager")}, ""},
		{"a program in Go of the user's", []metav1.ManagedFieldsEntry{applied, update(101, "Go-http-client")}, "Go-http-client"},
		{"statuses do not count", []metav1.ManagedFieldsEntry{applied, at(105, "kubectl-edit", metav1.ManagedFieldsOperationUpdate, "status"), update(101, "a")}, "a"},
		{"kubectl scale, whose entry has no time", []metav1.ManagedFieldsEntry{applied, {Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "scale"}, update(101, "kube-controller-manager")}, "kubectl"},
		{"somebody who took the ownership and left no trace", []metav1.ManagedFieldsEntry{update(101, FieldManager)}, "an unknown writer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := lastWriter(row.managed); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}
