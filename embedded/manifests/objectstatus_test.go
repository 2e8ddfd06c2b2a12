package manifests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSaysSomething is B78: only a status with content makes a manifest its author.
func TestSaysSomething(t *testing.T) {
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
		objects, faults, _ := parse("x.yaml", []byte("apiVersion: v1\nkind: "+test.kind.Kind+"\nmetadata: {name: a}\nstatus: "+test.status+"\n"), nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if got := saysSomething(test.kind, objects[0].Unstructured.Object["status"]); got != test.want {
			t.Errorf("%s %s: got %v", test.kind.Kind, test.status, got)
		}
	}
}

// TestEmptyStatus is B78: such a manifest applies no status, leaves the Pod to the kubelet, and
// gives no notice; also within a List.
func TestEmptyStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit = func(cfg *Config) {
		cfg.StatusOwners = map[schema.GroupKind]string{{Group: "apps", Kind: "Deployment"}: "its controller"}
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: {}\nstatus: {}\n"
	b.write("p.yaml", pod)
	b.write("l.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: ns}, status: {phase: Pending}}\n")
	b.write("d.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\nstatus: {}\n")
	b.start()
	b.inSync()
	if got := b.api.requests("STATUS"); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
	for _, name := range []string{"p", "q"} {
		metadata := b.api.get(Key{Kind: "Pod", Namespace: "ns", Name: name})["metadata"].(map[string]any)
		if metadata["annotations"] != nil {
			t.Errorf("Pod %s has annotations %v", name, metadata["annotations"])
		}
	}
	if strings.Contains(b.out.String(), "is left out") {
		t.Errorf("printed %s", b.out)
	}
}
