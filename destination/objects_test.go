package destination

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Objects, as YAML.

// serviceYAML is a Service with ports as a flow sequence's content, then lines of its spec.
func serviceYAML(name string, ports string, more ...string) string {
	return "kind: Service\nmetadata: {namespace: ns, name: " + name + "}\nspec:\n  ports: [" + ports + "]\n" + strings.Join(more, "\n")
}

// podYAML is a running, meshed Pod.
func podYAML(name, ip string, edits ...func(*corev1.Pod)) string {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web", linkerd.ControlPlaneNSLabel: "linkerd"}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8989}}},
			proxyYAML(),
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func proxyYAML() corev1.Container {
	return corev1.Container{Name: linkerd.ProxyContainerName, Env: []corev1.EnvVar{
		{Name: linkerd.ProxyInboundAddrEnv, Value: "0.0.0.0:4143"},
		{Name: linkerd.ProxyAdminAddrEnv, Value: "0.0.0.0:4191"},
		{Name: linkerd.ProxyControlAddrEnv, Value: "0.0.0.0:4190"},
	}}
}

func unmeshed(pod *corev1.Pod) {
	delete(pod.Labels, linkerd.ControlPlaneNSLabel)
	pod.Spec.Containers = pod.Spec.Containers[:1]
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[key] = value }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func onNode(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name}} }
}

// sliceYAML is a slice of Service name1 with one unnamed port. An endpoint is
// "ip", "ip pod", "ip ew:workload" and then flow fields.
func sliceYAML(name string, port int, endpoints ...string) string {
	return sliceOf("name1", name, "IPv4", fmt.Sprintf("[{name: '', port: %d}]", port), endpoints...)
}

func slice6YAML(name string, port int, endpoints ...string) string {
	return sliceOf("name1", name, "IPv6", fmt.Sprintf("[{name: '', port: %d}]", port), endpoints...)
}

func sliceOf(service, name, family, ports string, endpoints ...string) string {
	text := "kind: EndpointSlice\nmetadata: {namespace: ns, name: " + name + ", labels: {kubernetes.io/service-name: " + service + "}}\n" +
		"addressType: " + family + "\nports: " + ports + "\nendpoints:\n"
	if len(endpoints) == 0 {
		return strings.Replace(text, "endpoints:\n", "endpoints: []\n", 1)
	}
	for _, e := range endpoints {
		text += "- {" + endpointYAML(e) + "}\n"
	}
	return text
}

func endpointYAML(e string) string {
	text, more, hasMore := strings.Cut(e, ", ")
	words := strings.Fields(text)
	fields := `addresses: ["` + words[0] + `"]`
	if len(words) > 1 {
		kind, name := "Pod", words[1]
		if workload, ok := strings.CutPrefix(name, "ew:"); ok {
			kind, name = "ExternalWorkload", workload
		}
		fields += ", targetRef: {kind: " + kind + ", namespace: ns, name: " + name + "}"
	}
	if hasMore {
		fields += ", " + more
	}
	return fields
}

func hint(zone string) string { return "hints: {forZones: [{name: " + zone + "}]}" }

func nodeYAML(name, zone string) string {
	if zone == "" {
		return "kind: Node\nmetadata: {name: " + name + "}\n"
	}
	return "kind: Node\nmetadata: {name: " + name + ", labels: {topology.kubernetes.io/zone: " + zone + "}}\n"
}

func serverYAML(name, selector, port, protocol string) string {
	return "kind: Server\nmetadata: {namespace: ns, name: " + name + "}\nspec: {podSelector: " + selector + ", port: " + port + ", proxyProtocol: " + protocol + "}\n"
}

func workloadYAML(name, ip, more string) string {
	return "kind: ExternalWorkload\nmetadata: {namespace: ns, name: " + name + ", labels: {app: vm}" + more + "}\n" +
		"spec: {meshTLS: {identity: 'spiffe://root/" + name + "', serverName: " + name + ".local}, ports: [{name: http, port: 8989}], workloadIPs: [{ip: " + ip + "}]}\n"
}

// base are the objects that most rules start from (D section 6).
func (c *cluster) base() {
	c.t.Helper()
	c.apply(
		serviceYAML("name1", "{port: 8989}")+"  clusterIP: 10.1.0.1\n",
		podYAML("name1-1", "10.0.0.12"),
		sliceYAML("n1-v4", 8989, "10.0.0.12 name1-1"),
	)
}

const name1 = "name1.ns.svc.cluster.local:8989"
