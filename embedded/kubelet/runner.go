package kubelet

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Runner runs the containers of pods that have something to run. The others
// stay stand-ins. Its methods do not block.
type Runner interface {
	// Runs reports whether a pod has something to run. The error is about what the
	// pod says of that; if it is an UnableError, the pod stands in.
	Runs(pod *corev1.Pod) (bool, error)
	// Sync sees to it that a pod runs, at its addresses.
	Sync(pod *corev1.Pod, addresses []netip.Addr)
	// Status is that of a pod that was given to Sync.
	Status(uid types.UID) (RunStatus, bool)
	// End ends a pod within its grace, and reports whether nothing of it runs any more.
	End(uid types.UID, grace time.Duration) bool
	// Forget gives up what there is of a pod that is gone.
	Forget(uid types.UID)
}

// UnableError says why a pod stands in although it has something to run.
type UnableError struct{ Reason string }

func (e *UnableError) Error() string { return e.Reason }

// RunStatus is what has become of a pod's containers. It is an immutable value.
type RunStatus struct {
	Init, Containers []corev1.ContainerStatus
	// Prepared says that the pod has its network and volumes, Initialized that all init
	// containers have done their work.
	Prepared, Initialized bool
	// Phase is Pending until the pod is initialized, and Succeeded or Failed once nothing
	// runs any more.
	Phase corev1.PodPhase
	// Reason and Message say why a pod has failed as a whole.
	Reason, Message string
}

// unready are the containers that are not ready.
func (s RunStatus) unready() []string {
	var names []string
	for _, container := range s.Containers {
		if !container.Ready {
			names = append(names, container.Name)
		}
	}
	return names
}

// Changed has the kubelet look at a pod again. It may be called at any time.
func (k *Kubelet) Changed(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue != nil {
		k.queue.Add(item{namespace: namespace, name: name})
	}
}

// runs reports whether a pod runs rather than stands in for one.
func (k *Kubelet) runs(pod *corev1.Pod) (bool, error) {
	if k.config.Runner == nil || pod.Annotations[ProcessAnnotation] != "" {
		return false, nil
	}
	if _, known := k.config.Runner.Status(pod.UID); known {
		return true, nil
	}
	return k.config.Runner.Runs(pod)
}

// runContainers brings what runs of a pod into its facts.
func (k *Kubelet) runContainers(pod *corev1.Pod, f *facts) {
	k.config.Runner.Sync(pod, f.podIPs)
	if status, ok := k.config.Runner.Status(pod.UID); ok {
		f.run = &status
	}
}

// endContainers ends what runs of a deleted pod, and reports whether nothing is left.
func (k *Kubelet) endContainers(pod *corev1.Pod) bool {
	if k.config.Runner == nil {
		return true
	}
	grace := time.Duration(0)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	return k.config.Runner.End(pod.UID, grace)
}
