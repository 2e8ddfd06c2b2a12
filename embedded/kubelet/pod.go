package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// terminatedExitCode is what a process ends with that a TERM signal ended.
const terminatedExitCode = 143

// addressRetry is how long a pod waits that found its range exhausted: the
// addresses at rest come back one by one.
const addressRetry = 2 * time.Second

// podChanged runs in the informer: it takes notes and never blocks.
func (k *Kubelet) podChanged(pod *corev1.Pod) {
	if addrs := statusAddresses(pod); len(addrs) > 0 && !pod.Spec.HostNetwork {
		k.addresses.hold(pod.UID, addrs)
	}
	switch {
	case ended(pod):
		k.load.set(pod.UID, "")
	case pod.Spec.NodeName != "":
		k.load.set(pod.UID, pod.Spec.NodeName)
	}
	if pod.Status.Phase == corev1.PodPending {
		k.watch.see(pod.UID, k.now())
	}
	k.queue.Add(podItem(pod))
}

func (k *Kubelet) podGone(uid types.UID) {
	k.addresses.release(uid)
	k.load.set(uid, "")
	k.watch.forget(uid)
	if k.config.Runner != nil {
		k.config.Runner.Forget(uid)
	}
}

func statusAddresses(pod *corev1.Pod) []netip.Addr {
	ips := make([]string, 0, 2)
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	if len(ips) == 0 && pod.Status.PodIP != "" {
		ips = append(ips, pod.Status.PodIP)
	}
	var addrs []netip.Addr
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// ended reports whether nothing of the pod runs any more, for good.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// syncPod does the next step for a pod, if there is one.
func (k *Kubelet) syncPod(ctx context.Context, next item) error {
	pod, err := k.pods.Pods(next.namespace).Get(next.name)
	if err != nil {
		return ignoreNotFound(err)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return k.endDeleted(ctx, pod)
	case isForeign(pod), ended(pod):
		return nil
	case pod.Spec.NodeName == "":
		return k.bind(ctx, pod)
	}
	node, err := k.nodes.Get(pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		return k.withoutNode(ctx, pod)
	}
	if err != nil {
		return err
	}
	return k.run(ctx, pod, node)
}

// bind gives a pod its node, or says in its status why there is none.
func (k *Kubelet) bind(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.SchedulingGates) > 0 {
		return nil // the API server has said so in its status
	}
	nodes, err := k.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	node, why := k.load.choose(pod, nodes)
	if why != nil {
		return k.writeUnscheduled(ctx, pod, *why)
	}
	err = k.config.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		k.load.set(pod.UID, "")
		k.releaseIfGone(pod)
		return wrap(err, "bind pod to node %s", node)
	}
	k.metrics.bound.Inc()
	return nil
}

func (k *Kubelet) writeUnscheduled(ctx context.Context, pod *corev1.Pod, why problem) error {
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodPending
	status.ObservedGeneration = pod.Generation
	status.Conditions = setCondition(status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: why.reason, Message: why.message,
		ObservedGeneration: pod.Generation, LastTransitionTime: k.seconds(),
	})
	return k.write(ctx, pod, status, []problem{{"FailedScheduling", why.message}})
}

// withoutNode is for a pod whose node does not exist: as long as it has not
// run it waits for the node, afterwards it goes with the node.
func (k *Kubelet) withoutNode(ctx context.Context, pod *corev1.Pod) error {
	if pod.Status.StartTime != nil {
		k.log.Info("pod ends with its node", podItem(pod).attribute(), slog.String("node", pod.Spec.NodeName))
		return k.delete(ctx, pod)
	}
	why := problem{"NodeNotFound", fmt.Sprintf("spec.nodeName is %q and there is no such node: add a Node object or name the node when starting", pod.Spec.NodeName)}
	status := statusOf(pod, facts{now: k.seconds(), blocked: &why})
	return k.write(ctx, pod, status, []problem{why})
}

// run makes a pod that has a node what its spec and annotations ask for.
func (k *Kubelet) run(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error {
	hosts := nodeAddresses(node)
	if len(hosts) == 0 {
		return nil // the node has yet to get its own; then all its pods are looked at again
	}
	w := readWishes(pod)
	f := facts{now: k.seconds(), hostIPs: hosts, ready: w.ready, blocked: w.fatal, notes: w.notes}
	problems := w.notes
	var err error
	switch {
	case w.fatal != nil:
	case w.process.IsValid():
		f.podIPs = []netip.Addr{w.process}
	case pod.Spec.HostNetwork:
		f.podIPs = hosts
	default:
		f.podIPs, err = k.addresses.allocate(pod.UID)
	}
	if err != nil {
		f.blocked = &problem{"NoPodAddress", err.Error()}
		k.queue.AddAfter(podItem(pod), addressRetry)
	}
	if f.blocked != nil {
		problems = append(slices.Clone(problems), *f.blocked)
	}
	if f.blocked == nil {
		runs, err := k.runs(pod)
		var unable *UnableError
		if errors.As(err, &unable) {
			note := problem{"CannotRun", unable.Reason}
			f.notes, problems = append(f.notes, note), append(slices.Clone(problems), note)
		} else if err != nil {
			f.blocked = &problem{"InvalidRun", err.Error()}
			problems = append(slices.Clone(problems), *f.blocked)
		} else if runs {
			k.runContainers(pod, &f)
			return k.write(ctx, pod, statusOf(pod, f), problems)
		}
	}
	if w.runFor >= 0 && f.blocked == nil && pod.Status.Phase == corev1.PodRunning {
		if left := w.runFor - k.ranFor(pod); left > 0 {
			k.queue.AddAfter(podItem(pod), left)
		} else {
			f.end = corev1.PodSucceeded
		}
	}
	return k.write(ctx, pod, statusOf(pod, f), problems)
}

// ranFor is how long a Running pod has been so. Of one that was started by a
// former process only the second is known.
func (k *Kubelet) ranFor(pod *corev1.Pod) time.Duration {
	at, ok := k.watch.startedAt(pod.UID)
	if !ok && pod.Status.StartTime != nil {
		at = pod.Status.StartTime.Time
	}
	return k.now().Sub(at)
}

// write stores a pod's status if it differs from the present one, and reports
// those problems that the present one did not tell of.
func (k *Kubelet) write(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus, problems []problem) error {
	if apiequality.Semantic.DeepEqual(pod.Status, status) {
		return nil
	}
	update := pod.DeepCopy()
	update.ManagedFields = nil // absent means unchanged; ours are trimmed
	update.Status = status
	_, err := k.config.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		k.releaseIfGone(pod)
		return wrap(err, "write status of pod")
	}
	k.metrics.written.Inc()
	if status.Phase == corev1.PodRunning && pod.Status.Phase != corev1.PodRunning {
		if took, ok := k.watch.start(pod.UID, k.now()); ok {
			k.metrics.startup.Observe(took.Seconds())
		}
	}
	for _, p := range problems {
		known := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return strings.Contains(c.Message, p.message) })
		if !known {
			k.event(ctx, pod, p)
		}
	}
	return nil
}

// releaseIfGone gives back what was taken for a pod that went in the meantime,
// after its end was noted.
func (k *Kubelet) releaseIfGone(pod *corev1.Pod) {
	current, err := k.pods.Pods(pod.Namespace).Get(pod.Name)
	if apierrors.IsNotFound(err) || err == nil && current.UID != pod.UID {
		k.podGone(pod.UID)
	}
}

// endDeleted confirms the end of a pod that somebody deleted. One that is kept
// by finalizers first shows how it ended, since controllers wait for that.
func (k *Kubelet) endDeleted(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return nil // confirmed: only finalizers hold it
	}
	if !k.endContainers(pod) {
		return nil // the pod is looked at again when they have ended
	}
	if len(pod.Finalizers) > 0 && !ended(pod) && !isForeign(pod) {
		status := statusOf(pod, facts{
			now: k.seconds(), end: corev1.PodFailed, exitCode: terminatedExitCode,
			hostIPs: parseHosts(pod), podIPs: statusAddresses(pod),
		})
		return k.write(ctx, pod, status, nil)
	}
	return k.delete(ctx, pod)
}

func parseHosts(pod *corev1.Pod) []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range pod.Status.HostIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func (k *Kubelet) delete(ctx context.Context, pod *corev1.Pod) error {
	err := k.config.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil {
		return wrap(err, "confirm the end of pod")
	}
	k.metrics.ended.Inc()
	return nil
}

// event tells of a problem. It is a courtesy: the status says the same.
func (k *Kubelet) event(ctx context.Context, pod *corev1.Pod, p problem) {
	now := metav1.NewTime(k.now())
	k.log.Info(p.message, podItem(pod).attribute(), slog.String("reason", p.reason))
	_, err := k.config.Client.CoreV1().Events(pod.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      fmt.Sprintf("%.200s.%x", pod.Name, now.UnixNano()),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: p.reason, Message: p.message, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: FieldManager}, ReportingController: FieldManager,
	}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		k.log.Warn("event not written", podItem(pod).attribute(), slog.Any("error", err))
	}
}

// seconds is now with the precision that objects have.
func (k *Kubelet) seconds() metav1.Time { return metav1.NewTime(k.now()).Rfc3339Copy() }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// wrap keeps the kind of an API error visible to errors.As.
func wrap(err error, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
