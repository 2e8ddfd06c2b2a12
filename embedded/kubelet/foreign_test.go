package kubelet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForeignStatus(t *testing.T) {
	managed := func(manager, fields string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: manager, Operation: "Update", Subresource: "status", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(fields),
			})
		}
	}
	for _, test := range []struct {
		name    string
		changes []func(*corev1.Pod)
		ours    bool
	}{
		{"nobody's", nil, true},
		{"ours", []func(*corev1.Pod){managed(FieldManager, `{"f:status":{"f:podIP":{}}}`)}, true},
		{"no status", []func(*corev1.Pod){managed("kubectl", `{"f:spec":{"f:nodeName":{}}}`)}, true},
		{"empty status", []func(*corev1.Pod){managed("manifests", `{"f:status":{}}`)}, true},
		{"a manifest's", []func(*corev1.Pod){managed("manifests", `{"f:status":{"f:podIP":{}}}`)}, false},
		{"a condition", []func(*corev1.Pod){managed("kubectl", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}`)}, false},
		{"a disruption", []func(*corev1.Pod){managed("kube-controller-manager", `{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"DisruptionTarget\"}":{".":{},"f:status":{}}}}}`)}, true},
		{"annotation", []func(*corev1.Pod){annotated(StatusAnnotation, StatusManual)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod("web", test.changes...)
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, PodIP: "192.0.2.9"}
			a := newAPI(t, pod)
			a.started(Config{})
			if test.ours {
				a.awaitReady("web")
				return
			}
			a.createPod(newPod("other"))
			a.awaitReady("other")
			for _, write := range a.settled() {
				if strings.Contains(write, "web") {
					t.Errorf("a pod with a foreign status was written: %s", write)
				}
			}
			// Only the end is confirmed.
			if err := a.client.CoreV1().Pods("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			a.awaitGone("web")
		})
	}
}

func TestForeignNode(t *testing.T) {
	a := newAPI(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "mine", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "manifests", Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`),
		}}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
	})
	a.started(Config{})
	a.createPod(newPod("web", func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Spec.HostNetwork = "mine", true }))
	if pod := a.awaitReady("web"); pod.Status.PodIP != "192.0.2.1" {
		t.Errorf("pod has address %s, want its node's", pod.Status.PodIP)
	}
	node, err := a.client.CoreV1().Nodes().Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Status.Conditions) > 0 {
		t.Errorf("a node with a foreign status was written: %+v", node.Status)
	}
}
