package kubelet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of conditions, as a real kubelet spells them.
const (
	reasonNotReady  = "ContainersNotReady"
	reasonCompleted = "PodCompleted"
	reasonGates     = "ReadinessGatesNotReady"
	reasonNotInit   = "ContainersNotInitialized"
)

// facts is what a pod's status is made from, besides the pod.
type facts struct {
	now     metav1.Time
	hostIPs []netip.Addr
	podIPs  []netip.Addr
	// ready is false for pods annotated so.
	ready bool
	// end is the phase that a pod has at its end, or empty while it runs.
	end corev1.PodPhase
	// exitCode of the containers, if there is an end.
	exitCode int32
	// blocked keeps the pod from starting.
	blocked *problem
	// run is nil for a stand-in.
	run *RunStatus
	// notes are things that somebody should know although the pod runs.
	notes []problem
}

// statusOf is the status that pod ought to have. It keeps what others wrote
// into the present one, and all times of things that did not change, so that
// the result equals pod.Status when there is nothing to write.
func statusOf(pod *corev1.Pod, f facts) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil && f.blocked == nil {
		status.StartTime = &f.now
	}
	status.HostIPs, status.HostIP = ips(f.hostIPs, hostIP)
	status.PodIPs, status.PodIP = ips(f.podIPs, podIP)
	status.Phase = corev1.PodRunning
	switch {
	case f.blocked != nil:
		status.Phase = corev1.PodPending
	case f.end != "":
		status.Phase = f.end
	}
	status.Conditions = conditions(pod, f)
	if f.run != nil && f.blocked == nil {
		status.Phase, status.Reason, status.Message = f.run.Phase, f.run.Reason, f.run.Message
		status.InitContainerStatuses, status.ContainerStatuses = f.run.Init, f.run.Containers
		return status
	}
	status.InitContainerStatuses = nil
	for _, container := range pod.Spec.InitContainers {
		sidecar := container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		status.InitContainerStatuses = append(status.InitContainerStatuses,
			containerStatus(pod, container, pod.Status.InitContainerStatuses, f, !sidecar))
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses,
			containerStatus(pod, container, pod.Status.ContainerStatuses, f, false))
	}
	return status
}

// ips returns the addresses in the form that a status has them, and the first.
func ips[T any](addrs []netip.Addr, form func(ip string) T) (all []T, first string) {
	for _, addr := range addrs {
		all = append(all, form(addr.String()))
	}
	if len(addrs) > 0 {
		first = addrs[0].String()
	}
	return all, first
}

func hostIP(ip string) corev1.HostIP { return corev1.HostIP{IP: ip} }

func podIP(ip string) corev1.PodIP { return corev1.PodIP{IP: ip} }

// containerStatus is the status of one container. Init containers that are no
// sidecars (completes) are over as soon as the pod has started.
func containerStatus(pod *corev1.Pod, container corev1.Container, present []corev1.ContainerStatus, f facts, completes bool) corev1.ContainerStatus {
	var old corev1.ContainerStatus
	if i := slices.IndexFunc(present, func(s corev1.ContainerStatus) bool { return s.Name == container.Name }); i >= 0 {
		old = present[i]
	}
	status := corev1.ContainerStatus{
		Name: container.Name, Image: container.Image, RestartCount: old.RestartCount, Started: new(bool),
	}
	if f.blocked != nil {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: f.blocked.reason}
		return status
	}
	status.ImageID = container.Image
	status.ContainerID = fmt.Sprintf("lite://%s/%s", pod.UID, container.Name)
	startedAt := f.now
	switch {
	case old.State.Running != nil:
		startedAt = old.State.Running.StartedAt
	case old.State.Terminated != nil:
		startedAt = old.State.Terminated.StartedAt
	}
	if !completes && f.end == "" {
		*status.Started = true
		status.Ready = f.ready
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
		return status
	}
	terminated := &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: startedAt, FinishedAt: f.now, ContainerID: status.ContainerID,
	}
	if !completes && f.exitCode != 0 {
		terminated.Reason, terminated.ExitCode = "Error", f.exitCode
	}
	if old.State.Terminated != nil {
		terminated.FinishedAt = old.State.Terminated.FinishedAt
	}
	status.State.Terminated = terminated
	status.Ready = completes
	return status
}

// conditions returns the pod's conditions with the kubelet's own brought up to
// date; those of others stay where they are.
func conditions(pod *corev1.Pod, f facts) []corev1.PodCondition {
	all := slices.Clone(pod.Status.Conditions)
	set := func(kind corev1.PodConditionType, why *problem) {
		condition := corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation, LastTransitionTime: f.now,
		}
		if why != nil {
			condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, why.reason, why.message
		}
		all = setCondition(all, condition)
	}
	// In the order in which kubectl describe is used to show them.
	set(corev1.PodReadyToStartContainers, unprepared(f))
	set(corev1.PodInitialized, uninitialized(f))
	containers := containersReady(pod, f)
	ready := containers
	if ready == nil {
		ready = gates(pod)
	}
	set(corev1.PodReady, ready)
	set(corev1.ContainersReady, containers)
	if i := slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == corev1.ContainersReady }); containers == nil {
		all[i].Message = join(f.notes)
	}
	set(corev1.PodScheduled, nil)
	return all
}

func join(problems []problem) string {
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.message)
	}
	return strings.Join(messages, "; ")
}

// unprepared is why a pod's containers cannot be started, or not any more.
func unprepared(f facts) *problem {
	switch {
	case f.blocked != nil:
		return f.blocked
	case f.end != "", f.run != nil && (f.run.Phase == corev1.PodSucceeded || f.run.Phase == corev1.PodFailed):
		return &problem{reason: reasonCompleted}
	case f.run != nil && !f.run.Prepared:
		return &problem{reason: reasonNotReady}
	}
	return nil
}

// uninitialized is why a pod's init containers have not done their work.
func uninitialized(f facts) *problem {
	if f.run != nil && !f.run.Initialized {
		return &problem{reason: reasonNotInit}
	}
	return blockedBy(f.blocked, reasonNotInit)
}

// blockedBy is blocked, except that a pod whose start is not blocked has no
// problem with the condition either.
func blockedBy(blocked *problem, reason string) *problem {
	if blocked == nil {
		return nil
	}
	return &problem{reason, blocked.message}
}

func containersReady(pod *corev1.Pod, f facts) *problem {
	switch {
	case f.blocked != nil:
		return f.blocked
	case f.end == corev1.PodSucceeded, f.run != nil && f.run.Phase == corev1.PodSucceeded:
		return &problem{reason: reasonCompleted}
	case f.end != "", f.run != nil && f.run.Phase == corev1.PodFailed:
		return &problem{reason: "PodFailed"}
	case f.run != nil && len(f.run.unready()) > 0:
		return &problem{reasonNotReady, fmt.Sprintf("containers with unready status: [%s]", strings.Join(f.run.unready(), " "))}
	case f.ready:
		return nil
	}
	var names []string
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	return &problem{reasonNotReady, fmt.Sprintf("containers with unready status: [%s], by annotation %s", strings.Join(names, " "), ReadyAnnotation)}
}

// gates returns the first readiness gate that holds the pod back.
func gates(pod *corev1.Pod) *problem {
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			return &problem{reasonGates, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType)}
		case pod.Status.Conditions[i].Status != corev1.ConditionTrue:
			return &problem{reasonGates, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, pod.Status.Conditions[i].Status)}
		}
	}
	return nil
}

// setCondition puts condition into all; its transition time is kept while its
// status stays.
func setCondition(all []corev1.PodCondition, condition corev1.PodCondition) []corev1.PodCondition {
	i := slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		return append(all, condition)
	}
	if all[i].Status == condition.Status {
		condition.LastTransitionTime = all[i].LastTransitionTime
		condition.LastProbeTime = all[i].LastProbeTime
	}
	all[i] = condition
	return all
}
