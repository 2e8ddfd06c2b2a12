package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What is read of an object is kept, and nothing else of a pod or a Service.
func TestTrim(t *testing.T) {
	pod := func(text string) any { return read(t, text, &corev1.Pod{}) }
	service := func(text string) any { return read(t, text, &corev1.Service{}) }
	s := must(New(Config{Kinds: []*KindInfo{&Pods.KindInfo, &Services.KindInfo}}))
	stored := func(obj any) any {
		switch obj := obj.(type) {
		case *corev1.Pod:
			Put(s, Pods, obj)
			held, _ := Get(s.Snapshot().Reader(), Pods, obj.Namespace, obj.Name)
			return held
		case *corev1.Service:
			Put(s, Services, obj)
			held, _ := Get(s.Snapshot().Reader(), Services, obj.Namespace, obj.Name)
			return held
		}
		return nil
	}
	const meta = `name: a, namespace: b, uid: u, resourceVersion: "1", labels: {l: x}, ownerReferences: [{kind: ReplicaSet, name: r, uid: "", apiVersion: apps/v1, controller: true}], deletionTimestamp: "2026-01-01T00:00:00Z"`
	const noise = `annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", a: x}, managedFields: [{manager: m}]`
	for _, row := range []struct {
		name     string
		as       func(string) any
		in, want string
	}{
		{"pod metadata", pod, `{metadata: {` + meta + `, ` + noise + `}}`, `{metadata: {` + meta + `, annotations: {a: x}}}`},
		{"what a pod is: node, account, network, addresses, phase", pod,
			`{spec: {nodeName: n, serviceAccountName: s, hostNetwork: true, hostname: h, volumes: [{name: v}], schedulerName: x},
			  status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "fd00::1"}], hostIP: 192.0.2.1, hostIPs: [{ip: 192.0.2.1}], conditions: [{type: Ready}], qosClass: Burstable}}`,
			`{spec: {nodeName: n, serviceAccountName: s, hostNetwork: true},
			  status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "fd00::1"}], hostIP: 192.0.2.1, hostIPs: [{ip: 192.0.2.1}]}}`},
		{"containers: ports and HTTP probes", pod,
			`{spec: {containers: [{name: c, image: i, args: [x], resources: {limits: {cpu: 1}}, env: [{name: E, value: x}],
			  ports: [{name: http, containerPort: 80, hostPort: 8080, protocol: TCP}],
			  livenessProbe: {periodSeconds: 3, httpGet: {path: /l, port: 80, host: h, scheme: HTTPS}}, readinessProbe: {httpGet: {path: /r, port: http}}, startupProbe: {httpGet: {path: /s, port: 80}}}]}}`,
			`{spec: {containers: [{name: c, ports: [{name: http, containerPort: 80, hostPort: 8080, protocol: TCP}],
			  livenessProbe: {httpGet: {path: /l, port: 80, host: h, scheme: HTTPS}}, readinessProbe: {httpGet: {path: /r, port: http}}, startupProbe: {httpGet: {path: /s, port: 80}}}]}}`},
		{"probes that become no route", pod,
			`{spec: {containers: [{name: c, livenessProbe: {exec: {command: [x]}}, readinessProbe: {tcpSocket: {port: 1}}, startupProbe: {grpc: {port: 1}}}]}}`,
			`{spec: {containers: [{name: c}]}}`},
		{"the literal environment of a proxy, also as a sidecar", pod,
			`{spec: {initContainers: [{name: linkerd-proxy, image: i, restartPolicy: Always, env: [{name: A, value: x}, {name: B, valueFrom: {fieldRef: {fieldPath: x}}}, {name: C, value: y}]}, {name: linkerd-init, env: [{name: A, value: x}]}],
			  containers: [{name: linkerd-proxy, env: [{name: D, value: z}]}]}}`,
			`{spec: {initContainers: [{name: linkerd-proxy, restartPolicy: Always, env: [{name: A, value: x}, {name: C, value: y}]}, {name: linkerd-init}],
			  containers: [{name: linkerd-proxy, env: [{name: D, value: z}]}]}}`},
		{"Service", service,
			`{metadata: {` + meta + `, ` + noise + `}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], type: LoadBalancer, ports: [{name: p, port: 80, targetPort: x, appProtocol: http}], selector: {a: b}, internalTrafficPolicy: Local}, status: {loadBalancer: {ingress: [{ip: 203.0.113.1}]}}}`,
			`{metadata: {` + meta + `, annotations: {a: x}}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], type: LoadBalancer, ports: [{name: p, port: 80, targetPort: x, appProtocol: http}], selector: {a: b}, internalTrafficPolicy: Local}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.as(row.want), stored(row.as(row.in))); diff != "" {
				t.Errorf("trimmed (-want +got):\n%s", diff)
			}
		})
	}
}
