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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/utils/ptr"
)

// workloadKind is a kind of workload of which `kubectl rollout status` can say
// whether all its pods are there, available and of the newest template.
type workloadKind struct{ name, resource string }

func workloadKinds() []workloadKind {
	return []workloadKind{{"Deployment", "deployments"}, {"StatefulSet", "statefulsets"}, {"DaemonSet", "daemonsets"}}
}

// rollout is what `kubectl rollout status` says of a workload, and whether the
// rollout is complete. It answers with an error where pods of an older template
// stay until somebody deletes them: there the pods that exist count.
func (k workloadKind) rollout(workload runtime.Object) (status string, complete bool, err error) {
	switch w := workload.(type) {
	case *appsv1.StatefulSet:
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			ready, want := w.Status.ReadyReplicas, ptr.Deref(w.Spec.Replicas, 1)
			return fmt.Sprintf("%d of %d ready", ready, want), w.Status.ObservedGeneration >= w.Generation && ready >= want, nil
		}
	case *appsv1.DaemonSet:
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			available, want := w.Status.NumberAvailable, w.Status.DesiredNumberScheduled
			return fmt.Sprintf("%d of %d available", available, want), w.Status.ObservedGeneration >= w.Generation && available >= want, nil
		}
	}
	viewer, err := polymorphichelpers.StatusViewerFor(appsv1.SchemeGroupVersion.WithKind(k.name).GroupKind())
	if err != nil {
		return "", false, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(workload)
	if err != nil {
		return "", false, err
	}
	status, complete, err = viewer.Status(&unstructured.Unstructured{Object: content}, 0)
	if err != nil {
		// A rollout that has failed: one that is not complete.
		return err.Error(), false, nil
	}
	return status, complete, nil
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

// rollouts follows the workloads of one kind until all are rolled out.
type rollouts struct {
	workloadKind
	source cache.ListerWatcherWithContext
	// progressed is called when a workload says something that it has not said before.
	progressed func()
	said       map[string]bool
	// missing are the workloads that are not rolled out.
	missing map[string]metav1.Object
}

// await waits until all workloads of the kind are rolled out at once. If ctx
// ends before, its error is about one that is not.
func (r *rollouts) await(ctx context.Context) error {
	r.said = map[string]bool{}
	for {
		list, err := r.source.ListWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list %s: %w", r.resource, err)
		}
		r.missing = map[string]metav1.Object{}
		if err := meta.EachListItem(list, r.note); err != nil {
			return err
		}
		version := list.(metav1.ListInterface).GetResourceVersion()
		if err := r.follow(ctx, version); err != nil || len(r.missing) == 0 {
			return err
		}
		if ctx.Err() != nil {
			first := slices.Min(slices.Collect(maps.Keys(r.missing)))
			return &unavailable{r.name, r.missing[first]}
		}
	}
}

// follow keeps missing up to date, from a version on, until it is empty or the
// watch ends.
func (r *rollouts) follow(ctx context.Context, version string) error {
	if len(r.missing) == 0 {
		return nil
	}
	watcher, err := r.source.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return fmt.Errorf("watch %s: %w", r.resource, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			err = r.note(event.Object)
		case watch.Deleted:
			delete(r.missing, name(event.Object.(metav1.Object)))
		case watch.Error:
			return nil
		}
		if err != nil || len(r.missing) == 0 {
			return err
		}
	}
	return nil
}

// note keeps a workload in missing while it is not rolled out.
func (r *rollouts) note(workload runtime.Object) error {
	object, err := meta.Accessor(workload)
	if err != nil {
		return err
	}
	status, complete, err := r.rollout(workload)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.name, name(object), err)
	}
	if said := name(object) + ": " + status; !r.said[said] {
		r.said[said] = true
		r.progressed()
	}
	if complete {
		delete(r.missing, name(object))
	} else {
		r.missing[name(object)] = object
	}
	return nil
}
