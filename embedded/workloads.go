package embedded

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// workloadKind is a kind of workload and what says of one that it is available.
type workloadKind struct {
	name, resource string
	available      func(runtime.Object) bool
}

func workloadKinds() []workloadKind {
	return []workloadKind{
		{"Deployment", "deployments", func(o runtime.Object) bool {
			d := o.(*appsv1.Deployment)
			want := replicas(d.Spec.Replicas)
			return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want
		}},
		{"StatefulSet", "statefulsets", func(o runtime.Object) bool {
			s := o.(*appsv1.StatefulSet)
			return s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas >= replicas(s.Spec.Replicas)
		}},
		{"DaemonSet", "daemonsets", func(o runtime.Object) bool {
			s := o.(*appsv1.DaemonSet)
			return s.Status.ObservedGeneration >= s.Generation && s.Status.NumberReady >= s.Status.DesiredNumberScheduled
		}},
	}
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// unavailable is the error that a workload is not available.
type unavailable struct {
	kind   string
	object metav1.Object
}

func (u *unavailable) Error() string { return u.kind + " " + name(u.object) + " is not available" }

// replicaFailure is why a Deployment's ReplicaSet gets no Pods.
func (u *unavailable) replicaFailure() string {
	if d, ok := u.object.(*appsv1.Deployment); ok {
		for _, condition := range d.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
				return condition.Message
			}
		}
	}
	return ""
}

// await waits until all workloads of the kind are available at once. If ctx
// ends before, its error is about one that is not.
func (k workloadKind) await(ctx context.Context, source cache.ListerWatcherWithContext) error {
	for {
		list, err := source.ListWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list %s: %w", k.resource, err)
		}
		missing := map[string]metav1.Object{}
		if err := meta.EachListItem(list, func(o runtime.Object) error { return k.note(missing, o) }); err != nil {
			return err
		}
		version := list.(metav1.ListInterface).GetResourceVersion()
		if err := k.follow(ctx, source, version, missing); err != nil || len(missing) == 0 {
			return err
		}
		if ctx.Err() != nil {
			first := slices.Min(slices.Collect(maps.Keys(missing)))
			return &unavailable{k.name, missing[first]}
		}
	}
}

// follow keeps missing up to date, from a version on, until it is empty or the
// watch ends.
func (k workloadKind) follow(ctx context.Context, source cache.WatcherWithContext, version string, missing map[string]metav1.Object) error {
	if len(missing) == 0 {
		return nil
	}
	watcher, err := source.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.resource, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			err = k.note(missing, event.Object)
		case watch.Deleted:
			delete(missing, name(event.Object.(metav1.Object)))
		case watch.Error:
			return nil
		}
		if err != nil || len(missing) == 0 {
			return err
		}
	}
	return nil
}

// note keeps a workload in missing while it is not available.
func (k workloadKind) note(missing map[string]metav1.Object, workload runtime.Object) error {
	object, err := meta.Accessor(workload)
	if err != nil {
		return err
	}
	if k.available(workload) {
		delete(missing, name(object))
	} else {
		missing[name(object)] = object
	}
	return nil
}
