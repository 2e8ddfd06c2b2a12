package kubelet

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// api is the fake clientset, taught those rules of the API server that the
// kubelet relies on: UIDs, resource versions with conflicts, subresources
// that change only their own part, bindings, and the taint of new nodes.
type api struct {
	t       *testing.T
	client  *fake.Clientset
	tracker clienttesting.ObjectTracker
	version atomic.Int64

	mu     sync.Mutex
	writes []string
}

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func newAPI(t *testing.T, objects ...runtime.Object) *api {
	t.Helper()
	a := &api{t: t, client: fake.NewSimpleClientset()}
	a.tracker = a.client.Tracker()
	a.client.PrependReactor("create", "*", a.create)
	a.client.PrependReactor("update", "*", a.update)
	a.client.PrependReactor("delete", "pods", a.delete)
	for _, object := range objects {
		a.stamp(object)
		if err := a.tracker.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (a *api) stamp(object runtime.Object) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		a.t.Error(err)
	}
	version := a.version.Add(1)
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(fmt.Sprintf("uid-%d", version)))
	}
	accessor.SetResourceVersion(strconv.FormatInt(version, 10))
}

func (a *api) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = append(a.writes, fmt.Sprintf(format, args...))
}

// take returns the writes since the last call.
func (a *api) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	writes := a.writes
	a.writes = nil
	return writes
}

func (a *api) create(action clienttesting.Action) (bool, runtime.Object, error) {
	create := action.(clienttesting.CreateAction)
	object := create.GetObject().DeepCopyObject()
	if binding, ok := object.(*corev1.Binding); ok {
		a.note("bind %s to %s", binding.Name, binding.Target.Name)
		return true, binding, a.bind(binding)
	}
	a.stamp(object)
	if node, ok := object.(*corev1.Node); ok {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Generation = 1
		pod.Status.Phase = corev1.PodPending
	}
	accessor, _ := meta.Accessor(object)
	a.note("create %s %s", action.GetResource().Resource, accessor.GetName())
	err := a.tracker.Create(action.GetResource(), object, action.GetNamespace())
	return true, object, err
}

func (a *api) bind(binding *corev1.Binding) error {
	stored, err := a.tracker.Get(podsResource, binding.Namespace, binding.Name)
	if err != nil {
		return err
	}
	pod := stored.DeepCopyObject().(*corev1.Pod)
	if pod.Spec.NodeName != "" {
		return apierrors.NewConflict(podsResource.GroupResource(), binding.Name, fmt.Errorf("already on %s", pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	a.stamp(pod)
	return a.tracker.Update(podsResource, pod, binding.Namespace)
}

func (a *api) update(action clienttesting.Action) (bool, runtime.Object, error) {
	object := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject()
	accessor, _ := meta.Accessor(object)
	stored, err := a.tracker.Get(action.GetResource(), action.GetNamespace(), accessor.GetName())
	if err != nil {
		return true, nil, err
	}
	live, _ := meta.Accessor(stored)
	if version := accessor.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), accessor.GetName(), fmt.Errorf("it is at %s, not %s", live.GetResourceVersion(), version))
	}
	switch update := object.(type) {
	case *corev1.Pod:
		merged := stored.DeepCopyObject().(*corev1.Pod)
		if action.GetSubresource() == "status" {
			merged.Status = update.Status
		} else {
			status := merged.Status
			merged, merged.Status = update, status
		}
		object = merged
	case *corev1.Node:
		merged := stored.DeepCopyObject().(*corev1.Node)
		if action.GetSubresource() == "status" {
			merged.Status = update.Status
		} else {
			status := merged.Status
			update.ManagedFields = merged.ManagedFields
			update.Status = status
			merged = update
		}
		object = merged
	}
	a.stamp(object)
	a.note("update %s/%s %s", action.GetResource().Resource, action.GetSubresource(), accessor.GetName())
	err = a.tracker.Update(action.GetResource(), object, action.GetNamespace())
	return true, object, err
}

func (a *api) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	deletion := action.(clienttesting.DeleteActionImpl)
	stored, err := a.tracker.Get(podsResource, deletion.Namespace, deletion.Name)
	if err != nil {
		return true, nil, err
	}
	pod := stored.DeepCopyObject().(*corev1.Pod)
	grace := deletion.DeleteOptions.GracePeriodSeconds
	a.note("delete pod %s", deletion.Name)
	if grace != nil && *grace == 0 && len(pod.Finalizers) == 0 {
		return true, nil, a.tracker.Delete(podsResource, deletion.Namespace, deletion.Name)
	}
	now := metav1.Now()
	seconds := int64(30)
	if grace != nil {
		seconds = *grace
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &seconds
	a.stamp(pod)
	return true, nil, a.tracker.Update(podsResource, pod, deletion.Namespace)
}

// change updates a stored pod as somebody else would.
func (a *api) change(name string, change func(*corev1.Pod)) {
	a.t.Helper()
	stored, err := a.tracker.Get(podsResource, "ns", name)
	if err != nil {
		a.t.Fatal(err)
	}
	pod := stored.DeepCopyObject().(*corev1.Pod)
	change(pod)
	a.stamp(pod)
	if err := a.tracker.Update(podsResource, pod, "ns"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) createPod(pod *corev1.Pod) {
	a.t.Helper()
	if _, err := a.client.CoreV1().Pods(pod.Namespace).Create(a.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// await returns the pod once it is as wanted.
func (a *api) await(name, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	a.t.Helper()
	var seen *corev1.Pod
	a.eventually(func() bool {
		stored, err := a.tracker.Get(podsResource, "ns", name)
		if err != nil {
			return false
		}
		seen = stored.(*corev1.Pod)
		return wanted(seen)
	}, func() string { return fmt.Sprintf("pod %s did not become %s: %+v", name, what, seen) })
	return seen.DeepCopy()
}

func (a *api) awaitReady(name string) *corev1.Pod {
	a.t.Helper()
	return a.await(name, "ready", isReady)
}

func (a *api) eventually(condition func() bool, failure func() string) {
	a.t.Helper()
	eventually.Holds(a.t, "the API server holds it", condition, failure)
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func isReady(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// started runs a kubelet until the test ends, or until stop is called.
func (a *api) started(config Config) (stop func()) {
	a.t.Helper()
	config.Client = a.client
	if config.PodCIDRs == nil {
		config.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	}
	k, err := New(config)
	if err != nil {
		a.t.Fatal(err)
	}
	return parts.Start(a.t, time.Minute, func(ctx context.Context, ready func()) error {
		if err := k.Run(ctx, ready); err != context.Canceled {
			return fmt.Errorf("Run() = %v, want %v", err, context.Canceled)
		}
		return nil
	})
}

// settled waits until nothing was written for a while: what must not be
// written can only be waited for.
func (a *api) settled() []string {
	a.t.Helper()
	var all []string
	for quiet := 0; quiet < 10; quiet++ {
		<-time.After(5 * time.Millisecond)
		if writes := a.take(); len(writes) > 0 {
			all, quiet = append(all, writes...), 0
		}
	}
	return all
}
