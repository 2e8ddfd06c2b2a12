package containers

import corev1 "k8s.io/api/core/v1"

// finalPhase is the phase of a pod of which nothing runs any more.
func finalPhase(containers []corev1.ContainerStatus, policy corev1.RestartPolicy) corev1.PodPhase {
	if phase := phaseOf(containers, policy); phase != corev1.PodRunning {
		return phase
	}
	return corev1.PodFailed // ended from outside
}

// phaseOf is the phase of a pod whose containers have these statuses and are not
// started again when they have ended as policy has it.
func phaseOf(containers []corev1.ContainerStatus, policy corev1.RestartPolicy) corev1.PodPhase {
	phase := corev1.PodSucceeded
	for _, container := range containers {
		ended := container.State.Terminated
		if ended == nil && container.State.Waiting != nil {
			ended = container.LastTerminationState.Terminated // it is about to be started again
		}
		switch {
		case ended == nil || policy == corev1.RestartPolicyAlways:
			return corev1.PodRunning
		case ended.ExitCode != 0 && policy == corev1.RestartPolicyOnFailure:
			return corev1.PodRunning
		case ended.ExitCode != 0:
			phase = corev1.PodFailed
		}
	}
	return phase
}
