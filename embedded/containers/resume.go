package containers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// resume takes over what a former process has said of the container. What ran then has
// ended with that process.
func (c *container) resume(old corev1.ContainerStatus) {
	policy := c.worker.pod.Spec.RestartPolicy
	ended := old.State
	if ended.Terminated == nil && old.State.Running != nil {
		now := c.seconds()
		ended = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			// As a kubelet has it that does not find a container any more.
			Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", ExitCode: 137,
			StartedAt: old.State.Running.StartedAt, FinishedAt: now, ContainerID: old.ContainerID,
		}}
	}
	done := ended.Terminated != nil && ended.Terminated.ExitCode == 0 && !c.isInit
	if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && done {
		c.past, c.current, c.logged, c.done = true, *old.DeepCopy(), old.RestartCount, closedChannel()
		c.current.State, c.current.Ready, c.current.Started = ended, c.isInit && old.Ready, new(bool)
		return
	}
	c.current.RestartCount = old.RestartCount + 1
	c.current.LastTerminationState = old.LastTerminationState
	if ended.Terminated != nil {
		c.current.LastTerminationState = ended
	}
	c.logged, c.done = c.current.RestartCount, closedChannel()
}

// lost reports whether the pod has run under a former process, and is not to run again.
func (w *worker) lost() bool {
	return w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && w.ranBefore()
}

// ranBefore reports whether the pod has run under a former process.
func (w *worker) ranBefore() bool {
	return slices.ContainsFunc(slices.Concat(w.init, w.main), func(c *container) bool { return c.logged > 0 || c.past })
}

// sweep removes what is left of pods that have gone while nobody was there to see it.
func (r *Runner) sweep() error {
	entries, err := os.ReadDir(r.podsDir())
	if err != nil || len(entries) == 0 {
		return nil // nothing has run yet
	}
	pods, err := r.config.Client.CoreV1().Pods(metav1.NamespaceAll).List(r.context(), metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	known := sets.New[string]()
	for _, pod := range pods.Items {
		known.Insert(string(pod.UID))
	}
	for _, entry := range entries {
		if !known.Has(entry.Name()) {
			r.removeFiles(filepath.Join(r.podsDir(), entry.Name()))
		}
	}
	return nil
}

// formerLog is the log of a container of a pod that has ended under a former process; empty if
// there is none.
func (r *Runner) formerLog(namespace, name, container string, previous bool) (string, error) {
	pod, err := r.config.Client.CoreV1().Pods(namespace).Get(r.context(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range list {
			if status.Name != container {
				continue
			}
			restarts := status.RestartCount
			if previous {
				restarts--
			}
			path := logPath(filepath.Join(r.podsDir(), string(pod.UID)), container, restarts)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	return "", apierrors.NewNotFound(corev1.Resource("pods"), name+": nothing runs in it")
}

// context is that of Run, as long as it runs.
func (r *Runner) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return context.Background()
	}
	return r.ctx
}

// HasLog reports whether a container of a pod that has ended under a former process left a log.
func (r *Runner) HasLog(namespace, pod, container string) bool {
	path, err := r.formerLog(namespace, pod, container, false)
	return err == nil && path != ""
}
