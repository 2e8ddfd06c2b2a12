package kubelet

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAnnotations(t *testing.T) {
	status := func(pod *corev1.Pod) string {
		ready := condition(pod, corev1.PodReady)
		return fmt.Sprintf("%s %s ready=%s %s", pod.Status.Phase, pod.Status.PodIP, ready.Status, ready.Reason)
	}
	const blocked = "Pending  ready=False InvalidProcessAddress"
	for _, test := range []struct {
		name    string
		changes []func(*corev1.Pod)
		want    string
		event   string
	}{
		{"not ready", []func(*corev1.Pod){annotated(ReadyAnnotation, "false")}, "Running 10.244.0.2 ready=False ContainersNotReady", ""},
		{"ready", []func(*corev1.Pod){annotated(ReadyAnnotation, "true")}, "Running 10.244.0.2 ready=True ", ""},
		{
			"ready misspelt", []func(*corev1.Pod){annotated(ReadyAnnotation, "flase")}, "Running 10.244.0.2 ready=True ",
			`annotation lite.linkerd.io/ready: "flase" is neither true nor false, taken as true`,
		},
		{"process", []func(*corev1.Pod){annotated(ProcessAnnotation, "192.0.2.7:8080")}, "Running 192.0.2.7 ready=True ", ""},
		{"process, IPv6", []func(*corev1.Pod){annotated(ProcessAnnotation, "[2001:db8::7]:8080")}, "Running 2001:db8::7 ready=True ", ""},
		{"process not ready", []func(*corev1.Pod){annotated(ProcessAnnotation, "192.0.2.7:8080"), annotated(ReadyAnnotation, "false")}, "Running 192.0.2.7 ready=False ContainersNotReady", ""},
		{
			"process on loopback", []func(*corev1.Pod){annotated(ProcessAnnotation, "127.0.0.1:8080")}, blocked,
			"annotation lite.linkerd.io/process: 127.0.0.1 is a loopback address, which the API server refuses in an endpoint: use another address of this host",
		},
		{
			"process on mapped loopback", []func(*corev1.Pod){annotated(ProcessAnnotation, "[::ffff:127.0.0.1]:8080")}, blocked,
			"annotation lite.linkerd.io/process: 127.0.0.1 is a loopback address, which the API server refuses in an endpoint: use another address of this host",
		},
		{
			"process on link-local", []func(*corev1.Pod){annotated(ProcessAnnotation, "169.254.1.1:8080")}, blocked,
			"annotation lite.linkerd.io/process: 169.254.1.1 is a link-local address, which the API server refuses in an endpoint: use another address of this host",
		},
		{
			"process on any address", []func(*corev1.Pod){annotated(ProcessAnnotation, "0.0.0.0:8080")}, blocked,
			"annotation lite.linkerd.io/process: 0.0.0.0 is not the address of one host",
		},
		{
			"process without port", []func(*corev1.Pod){annotated(ProcessAnnotation, "192.0.2.7")}, blocked,
			`annotation lite.linkerd.io/process: "192.0.2.7" is not IP:PORT`,
		},
		{
			"process on an undeclared port", []func(*corev1.Pod){annotated(ProcessAnnotation, "192.0.2.7:9")}, blocked,
			"annotation lite.linkerd.io/process: port 9 is not a containerPort of this pod (declared: [8080]), so no Service can lead to it",
		},
		{
			"run-for with restartPolicy Always", []func(*corev1.Pod){annotated(RunForAnnotation, "1ms")}, "Running 10.244.0.2 ready=True ",
			"annotation lite.linkerd.io/run-for has no effect on a pod with restartPolicy Always, which never ends",
		},
		{
			"run-for misspelt", []func(*corev1.Pod){ofJob, annotated(RunForAnnotation, "an hour")}, "Running 10.244.0.2 ready=True ",
			`annotation lite.linkerd.io/run-for: "an hour" is not a duration such as 5s`,
		},
		{"run-for of a Job", []func(*corev1.Pod){ofJob, annotated(RunForAnnotation, "30ms")}, "Succeeded 10.244.0.2 ready=False PodCompleted", ""},
		{"Job by default", []func(*corev1.Pod){ofJob}, "Succeeded 10.244.0.2 ready=False PodCompleted", ""},
		{"run-for of a lone pod", []func(*corev1.Pod){
			func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, annotated(RunForAnnotation, "0s"),
		}, "Succeeded 10.244.0.2 ready=False PodCompleted", ""},
		{"C13 a lone pod that may end", []func(*corev1.Pod){never, withoutPorts}, "Succeeded 10.244.0.2 ready=False PodCompleted", ""},
		{"C13 the same in the mesh", []func(*corev1.Pod){never, withoutPorts, func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name: "linkerd-proxy", Image: "proxy", Ports: []corev1.ContainerPort{{ContainerPort: 4143}}, LivenessProbe: probe,
			})
		}}, "Succeeded 10.244.0.2 ready=False PodCompleted", ""},
		{"C13 a server that may end", []func(*corev1.Pod){never}, "Running 10.244.0.2 ready=True ", ""},
		{"C13 a server by its probe", []func(*corev1.Pod){never, withoutPorts, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ReadinessProbe = probe
		}}, "Running 10.244.0.2 ready=True ", ""},
		{"C13 a test of Helm", []func(*corev1.Pod){never, annotated("helm.sh/hook", "test")}, "Succeeded 10.244.0.2 ready=False PodCompleted", ""},
		{"C13 a pod that must not end", []func(*corev1.Pod){withoutPorts, annotated("helm.sh/hook", "test")}, "Running 10.244.0.2 ready=True ", ""},
		{"C13 a lone pod with run-for", []func(*corev1.Pod){never, withoutPorts, annotated(RunForAnnotation, "1h")}, "Running 10.244.0.2 ready=True ", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.started(Config{})
			a.createPod(newPod("web", test.changes...))
			a.await("web", test.want, func(pod *corev1.Pod) bool { return status(pod) == test.want })
			if test.event == "" {
				return
			}
			reasons := map[string]string{ReadyAnnotation: "InvalidReady", RunForAnnotation: "InvalidRunFor", ProcessAnnotation: "InvalidProcessAddress"}
			reason := reasons[strings.TrimSuffix(strings.Fields(test.event)[1], ":")]
			if got := a.awaitEvent(reason); got != test.event {
				t.Errorf("event = %q, want %q", got, test.event)
			}
		})
	}
}

var probe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}

func never(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

func withoutPorts(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = nil }

func TestAnnotationsAreFollowed(t *testing.T) {
	a := newAPI(t)
	a.started(Config{})
	a.createPod(newPod("web"))
	a.awaitReady("web")
	a.change("web", annotated(ReadyAnnotation, "false"))
	a.await("web", "not ready", func(pod *corev1.Pod) bool { return !isReady(pod) })
	a.change("web", func(pod *corev1.Pod) { delete(pod.Annotations, ReadyAnnotation) })
	a.awaitReady("web")
	a.change("web", annotated(ProcessAnnotation, "192.0.2.7:8080"))
	a.await("web", "a process", func(pod *corev1.Pod) bool { return pod.Status.PodIP == "192.0.2.7" })
	a.change("web", func(pod *corev1.Pod) { delete(pod.Annotations, ProcessAnnotation) })
	a.await("web", "a pod again", func(pod *corev1.Pod) bool { return pod.Status.PodIP == "10.244.0.3" })
}
