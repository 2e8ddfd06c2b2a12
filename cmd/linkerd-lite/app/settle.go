package app

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

const (
	// settleTimeout is how long workloads have to become available.
	settleTimeout = 10 * time.Second
	settlePoll    = 20 * time.Millisecond
)

// settler waits until what was applied has had its effect: workloads are
// available, slices are written, and our own State has seen both.
type settler struct {
	client        kubernetes.Interface
	state         *state.State
	warn          func(format string, args ...any)
	waitWorkloads bool
}

func (s *settler) run(ctx context.Context) error {
	deadline := time.Now().Add(settleTimeout)
	for {
		waiting, workload, err := s.waiting(ctx)
		if err != nil {
			return err
		}
		if waiting == "" {
			return nil
		}
		if time.Now().After(deadline) {
			s.warn("not settled after %s: %s%s\n", settleTimeout, waiting, s.reason(ctx, workload))
			return nil
		}
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return nil
		}
	}
}

// waiting names something that has not settled, or returns "". If that is a
// workload it is returned too.
func (s *settler) waiting(ctx context.Context) (string, metav1.Object, error) {
	if s.waitWorkloads {
		if name, workload, err := s.unavailable(ctx); name != "" || err != nil {
			return name, workload, err
		}
	}
	name, err := s.unseen(ctx)
	return name, nil, err
}

// unseen names something that has no slice yet, or that our own State has not
// seen yet.
func (s *settler) unseen(ctx context.Context) (string, error) {
	options := metav1.ListOptions{ResourceVersion: ""}
	pods, err := s.client.CoreV1().Pods("").List(ctx, options)
	if err != nil {
		return "", fmt.Errorf("waiting for things to settle: %w", err)
	}
	services, err := s.client.CoreV1().Services("").List(ctx, options)
	if err != nil {
		return "", fmt.Errorf("waiting for things to settle: %w", err)
	}
	slices, err := s.client.DiscoveryV1().EndpointSlices("").List(ctx, options)
	if err != nil {
		return "", fmt.Errorf("waiting for things to settle: %w", err)
	}
	if s.waitWorkloads {
		if name := unsliced(services.Items, pods.Items, slices.Items); name != "" {
			return name, nil
		}
	}
	for i := range pods.Items {
		if !s.seen("", "Pod", &pods.Items[i]) {
			return "pod " + name(&pods.Items[i]) + " has not arrived", nil
		}
	}
	for i := range services.Items {
		if !s.seen("", "Service", &services.Items[i]) {
			return "Service " + name(&services.Items[i]) + " has not arrived", nil
		}
	}
	for i := range slices.Items {
		if !s.seen("discovery.k8s.io", "EndpointSlice", &slices.Items[i]) {
			return "EndpointSlice " + name(&slices.Items[i]) + " has not arrived", nil
		}
	}
	return "", nil
}

func name(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

// seen says that the State holds the object's version or a later one.
func (s *settler) seen(group, kind string, object metav1.Object) bool {
	version, ok, held := s.state.ResourceVersion(group, kind, object.GetNamespace(), object.GetName())
	if !held {
		return true
	}
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, object.GetResourceVersion())
	return err != nil || order >= 0
}

// unavailable names a workload that is not available yet.
func (s *settler) unavailable(ctx context.Context) (string, metav1.Object, error) {
	deployments, err := s.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("waiting for workloads: %w", err)
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; !deploymentAvailable(d) {
			return "Deployment " + name(d) + " is not available", d, nil
		}
	}
	sets, err := s.client.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("waiting for workloads: %w", err)
	}
	for i := range sets.Items {
		d := &sets.Items[i]
		if d.Status.ObservedGeneration < d.Generation || d.Status.ReadyReplicas < replicas(d.Spec.Replicas) {
			return "StatefulSet " + name(d) + " is not available", d, nil
		}
	}
	daemons, err := s.client.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("waiting for workloads: %w", err)
	}
	for i := range daemons.Items {
		d := &daemons.Items[i]
		if d.Status.ObservedGeneration < d.Generation || d.Status.NumberReady < d.Status.DesiredNumberScheduled {
			return "DaemonSet " + name(d) + " is not available", d, nil
		}
	}
	return "", nil, nil
}

func deploymentAvailable(d *appsv1.Deployment) bool {
	want := replicas(d.Spec.Replicas)
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want
}

// reason says why a workload gets no Pods, if its controller knows: that of
// Deployments says so in a condition, the others only in events.
func (s *settler) reason(ctx context.Context, workload metav1.Object) string {
	if workload == nil {
		return ""
	}
	if d, ok := workload.(*appsv1.Deployment); ok {
		for _, condition := range d.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
				return ": " + condition.Message
			}
		}
		return ""
	}
	events, err := s.client.CoreV1().Events(workload.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(workload.GetUID()), "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	return ": " + events.Items[len(events.Items)-1].Message
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// unsliced names a Service that lacks a slice entry for a ready pod.
func unsliced(services []corev1.Service, pods []corev1.Pod, slices []discoveryv1.EndpointSlice) string {
	type target struct{ namespace, service, pod string }
	written := map[target]bool{}
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) {
				written[target{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName], endpoint.TargetRef.Name}] = true
			}
		}
	}
	for i := range services {
		service := &services[i]
		if len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		selector := labels.SelectorFromValidatedSet(service.Spec.Selector)
		for j := range pods {
			pod := &pods[j]
			if pod.Namespace == service.Namespace && podReady(pod) && selector.Matches(labels.Set(pod.Labels)) &&
				!written[target{service.Namespace, service.Name, pod.Name}] {
				return "Service " + name(service) + " has no endpoint for pod " + pod.Name
			}
		}
	}
	return ""
}

func podReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
