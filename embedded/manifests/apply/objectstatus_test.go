package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Only a status with content makes a manifest its author.
func TestSaysSomething(t *testing.T) {
	rulebook.Covers(t, "B78")
	pod, node, service := schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Kind: "Node"}, schema.GroupKind{Kind: "Service"}
	tests := []struct {
		kind   schema.GroupKind
		status string
		want   bool
	}{
		{pod, "{}", false},
		{pod, "null", false},
		{pod, "{qosClass: BestEffort}", false},
		{pod, "{conditions: []}", false},
		{pod, "{conditions: null, containerStatuses: []}", false},
		{pod, "{phase: Pending}", false},
		{pod, "{phase: Pending, qosClass: Burstable, observedGeneration: 1, podIP: ''}", false},
		{pod, "{phase: Running}", true},
		{pod, "{podIP: 10.0.0.1}", true},
		{pod, "{podIPs: [{ip: 10.0.0.1}]}", true},
		{pod, "{conditions: [{type: Ready, status: 'True'}]}", true},
		{pod, "{phase: Pending, containerStatuses: [{name: a, ready: false}]}", true},
		{node, "{}", false},
		{node, "{daemonEndpoints: {kubeletEndpoint: {Port: 0}}, nodeInfo: {architecture: '', bootID: ''}, conditions: null}", false},
		{node, "{capacity: {cpu: '4'}}", true},
		{node, "{phase: Pending}", true},
		{service, "{loadBalancer: {}}", false},
		{service, "{loadBalancer: {ingress: [{ip: 192.0.2.1}]}}", true},
	}
	for _, test := range tests {
		objects, faults, _ := source.Parse("c.yaml", []byte("apiVersion: v1\nkind: "+test.kind.Kind+"\nmetadata: {name: a}\nstatus: "+test.status+"\n"), nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if got := saysSomething(test.kind, objects[0].Unstructured.Object["status"]); got != test.want {
			t.Errorf("%s %s: got %v", test.kind.Kind, test.status, got)
		}
	}
}
