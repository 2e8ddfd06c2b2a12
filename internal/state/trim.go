package state

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Trimming keeps memory small: what no part reads is dropped on the way in.
// The functions own their argument, which a reflector has just decoded.

func trimMeta[T metav1.Object](obj T) T {
	obj.SetManagedFields(nil)
	if a := obj.GetAnnotations(); a != nil {
		delete(a, corev1.LastAppliedConfigAnnotation)
	}
	return obj
}

func trimService(service *corev1.Service) *corev1.Service {
	trimMeta(service)
	service.Status = corev1.ServiceStatus{}
	return service
}

// trimPod keeps of a pod: metadata; node, service account and network mode;
// of each container its name, ports, probes and restart policy, and of the
// proxy's its literal environment; phase and addresses.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	trimMeta(pod)
	trimmed := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
	trimmed.Spec = corev1.PodSpec{
		NodeName:           pod.Spec.NodeName,
		ServiceAccountName: pod.Spec.ServiceAccountName,
		HostNetwork:        pod.Spec.HostNetwork,
		InitContainers:     trimContainers(pod.Spec.InitContainers),
		Containers:         trimContainers(pod.Spec.Containers),
	}
	trimmed.Status = corev1.PodStatus{
		Phase:   pod.Status.Phase,
		PodIP:   pod.Status.PodIP,
		PodIPs:  pod.Status.PodIPs,
		HostIP:  pod.Status.HostIP,
		HostIPs: pod.Status.HostIPs,
	}
	return trimmed
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	trimmed := make([]corev1.Container, len(containers))
	for i, c := range containers {
		trimmed[i] = corev1.Container{
			Name:           c.Name,
			Ports:          c.Ports,
			LivenessProbe:  trimProbe(c.LivenessProbe),
			ReadinessProbe: trimProbe(c.ReadinessProbe),
			StartupProbe:   trimProbe(c.StartupProbe),
			RestartPolicy:  c.RestartPolicy,
		}
		if c.Name == linkerd.ProxyContainerName {
			for _, env := range c.Env {
				if env.ValueFrom == nil {
					trimmed[i].Env = append(trimmed[i].Env, env)
				}
			}
		}
	}
	return trimmed
}

// trimProbe keeps HTTP probes, the only ones that become routes (policy-inbound section 5).
func trimProbe(probe *corev1.Probe) *corev1.Probe {
	if probe == nil || probe.HTTPGet == nil {
		return nil
	}
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: probe.HTTPGet}}
}
