package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Every kind has a number and a name of its own, and is read from somewhere.
func TestKindsAreRegistered(t *testing.T) {
	names := map[string]bool{}
	for id, k := range allKinds() {
		if k == nil {
			t.Errorf("no kind has the number %d: it is missing in allKinds, or two kinds have one number", id)
			continue
		}
		if names[k.Name] {
			t.Errorf("two kinds are called %s", k.Name)
		}
		names[k.Name] = true
		if k.empty == nil || k.GVR.Resource == "" || k.GVK.Kind == "" {
			t.Errorf("%s cannot be fetched", k.Name)
		}
	}
}

// An index that is passed at another position than it was made for is found out
// before anything is read.
func TestIndexPositions(t *testing.T) {
	first := NewIndex(0, "first", func(*corev1.Pod) []string { return nil })
	second := NewIndex(1, "second", func(*corev1.Pod) []string { return nil })
	untyped([]Index[*corev1.Pod]{first, second})
	for _, wrong := range [][]Index[*corev1.Pod]{{second}, {second, first}, {first, first}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v passes", wrong)
				}
			}()
			untyped(wrong)
		}()
	}
}

// The keys by which objects are found.
func TestIndexKeys(t *testing.T) {
	pod := func(keys func(*corev1.Pod) []string) func(string) []string {
		return func(text string) []string { return keys(read(t, text, &corev1.Pod{})) }
	}
	service := func(text string) []string { return serviceIPs(read(t, text, &corev1.Service{})) }
	slice := func(text string) []string {
		return []string{SliceService(read(t, text, &discoveryv1.EndpointSlice{}))}
	}
	for _, row := range []struct {
		name   string
		keys   func(string) []string
		object string
		want   []string
	}{
		{"clusterIPs", service, `{spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "FD00::1"]}}`, []string{"10.0.0.1", "fd00::1"}},
		{"clusterIP alone", service, `{spec: {clusterIP: 10.0.0.1}}`, []string{"10.0.0.1"}},
		{"headless", service, `{spec: {clusterIP: None, clusterIPs: [None]}}`, nil},
		{"ExternalName", service, `{spec: {type: ExternalName, externalName: a.b}}`, nil},
		{"what is no address", service, `{spec: {clusterIPs: [x]}}`, []string{"x"}},

		{"podIPs", pod(podIPs), `{status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "FD01::1"}]}}`, []string{"10.1.0.1", "fd01::1"}},
		{"podIP alone", pod(podIPs), `{status: {podIP: 10.1.0.1}}`, []string{"10.1.0.1"}},
		{"no pod IP yet", pod(podIPs), `{}`, nil},
		{"the host's network", pod(podIPs), `{spec: {hostNetwork: true}, status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}]}}`, nil},

		{"hostPort", pod(podHostPorts), `{spec: {containers: [{ports: [{containerPort: 1, hostPort: 7777}, {containerPort: 2}]}]}, status: {hostIP: 192.0.2.1, hostIPs: [{ip: 192.0.2.1}, {ip: "FD02::1"}]}}`,
			[]string{"192.0.2.1:7777", "[fd02::1]:7777"}},
		{"hostIP alone", pod(podHostPorts), `{spec: {containers: [{ports: [{hostPort: 7777}]}]}, status: {hostIP: 192.0.2.1}}`, []string{"192.0.2.1:7777"}},
		{"hostPort of an init container, for two protocols", pod(podHostPorts), `{spec: {initContainers: [{ports: [{hostPort: 1}]}], containers: [{ports: [{hostPort: 53, protocol: TCP}, {hostPort: 53, protocol: UDP}]}]}, status: {hostIP: 192.0.2.1}}`,
			[]string{"192.0.2.1:1", "192.0.2.1:53"}},
		{"no host IP yet", pod(podHostPorts), `{spec: {containers: [{ports: [{hostPort: 7777}]}]}}`, nil},

		{"D30 label", slice, `{metadata: {labels: {kubernetes.io/service-name: a}, ownerReferences: [{kind: Service, name: b}]}}`, []string{"a"}},
		{"D31 owner", slice, `{metadata: {ownerReferences: [{kind: Deployment, name: a}, {kind: Service, name: ""}, {kind: Service, name: b}, {kind: Service, name: c}]}}`, []string{"b"}},
		{"neither", slice, `{metadata: {ownerReferences: [{kind: Deployment, name: a}]}}`, []string{""}},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, row.keys(row.object)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func read[T any](t *testing.T, text string, into T) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	return into
}

// Of Endpoints and EndpointSlices one is read, here and in linked clusters (D 1.8, D 1.16).
func TestKindsOfAMode(t *testing.T) {
	for _, slices := range []bool{true, false} {
		for name, kinds := range map[string][]*KindInfo{"local": LocalKinds(slices), "remote": RemoteKinds(slices)} {
			held := map[*KindInfo]bool{}
			for _, kind := range kinds {
				held[kind] = true
			}
			if held[&EndpointSlices.KindInfo] && !slices && name == "remote" || held[&Endpoints.KindInfo] == slices || !held[&Services.KindInfo] {
				t.Errorf("%s kinds with EndpointSlices %v: %v", name, slices, kinds)
			}
		}
	}
}
