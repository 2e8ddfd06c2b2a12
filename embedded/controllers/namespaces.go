package controllers

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

const (
	// deletionDelay lets the API server's admission notice the deletion before
	// the content is deleted. Kubernetes waits for five seconds, as it may have
	// several API servers.
	deletionDelay = 50 * time.Millisecond
	// remainingDelay is the time between two looks at a namespace whose
	// content is on its way out.
	remainingDelay = 250 * time.Millisecond
)

// namespaces empties namespaces that are being deleted and lets them go (B46).
// The work is done by Kubernetes' own code; only the queue is ours, as that
// of its controller has the delay above built in.
type namespaces struct {
	deleter deletion.NamespacedResourcesDeleterInterface
	synced  cache.InformerSynced
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newNamespaces(ctx context.Context, t *tools) (func(context.Context), error) {
	// The constructor ends the process when discovery answers nothing.
	if err := waitForDiscovery(ctx, t.client.Discovery()); err != nil {
		return nil, err
	}
	n := &namespaces{
		deleter: deletion.NewNamespacedResourcesDeleter(ctx, t.client.CoreV1().Namespaces(), t.metadata, t.client.CoreV1(), t.client.Discovery().ServerPreferredNamespacedResources, corev1.FinalizerKubernetes),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 10*time.Second)),
	}
	informer := t.factory.Core().V1().Namespaces().Informer()
	enqueue := func(object any) {
		if ns, ok := object.(*corev1.Namespace); ok && ns.DeletionTimestamp != nil {
			n.queue.AddAfter(ns.Name, deletionDelay)
		}
	}
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	if err != nil {
		return nil, err
	}
	n.synced = handle.HasSynced
	return n.run, nil
}

func waitForDiscovery(ctx context.Context, client discovery.DiscoveryInterface) error {
	for {
		resources, err := client.ServerPreferredNamespacedResources()
		if len(resources) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *namespaces) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer n.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), n.synced) {
		return
	}
	for range workers {
		wg.Go(func() {
			for n.next(ctx) {
			}
		})
	}
	<-ctx.Done()
}

func (n *namespaces) next(ctx context.Context) bool {
	name, quit := n.queue.Get()
	if quit {
		return false
	}
	defer n.queue.Done(name)
	err := n.deleter.Delete(ctx, name)
	var remaining *deletion.ResourcesRemainingError
	switch {
	case err == nil:
		n.queue.Forget(name)
	case errors.As(err, &remaining):
		n.queue.AddAfter(name, remainingDelay)
	default:
		n.queue.AddRateLimited(name)
		utilruntime.HandleErrorWithContext(ctx, err, "Deleting a namespace failed", "namespace", name)
	}
	return true
}
