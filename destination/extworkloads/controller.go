package extworkloads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

const (
	// maxRetries is how often a Service that cannot be written is tried again.
	maxRetries = 15
	// workers is how many Services are written at a time.
	workers = 4
	// echoTimeout is how long a Service waits for its own writes to come back
	// from the API server before it is looked at again regardless.
	echoTimeout = time.Second
)

// Config is what the controller needs.
type Config struct {
	State  *state.State
	Client kubernetes.Interface
	// Namespace of the control plane, where the Lease lives.
	Namespace string
	// Identity of the Lease's holder.
	Identity string
	Log      *slog.Logger
	// Registerer gets the queue's metrics; nil means no metrics.
	Registerer prometheus.Registerer
}

// Controller writes slices while it holds the Lease.
type Controller struct {
	config  Config
	metrics *queueMetrics
}

// New returns a controller. It does no I/O.
func New(config Config) (*Controller, error) {
	metrics, err := newQueueMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	return &Controller{config, metrics}, nil
}

// Run writes slices until ctx ends, and returns nil then.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.config.State.WaitSynced(ctx); err != nil {
		return nil
	}
	return lease.Run(ctx, lease.Config{
		Client:    c.config.Client.CoordinationV1(),
		Namespace: c.config.Namespace,
		Name:      linkerd.DestinationWriteLease,
		Identity:  c.config.Identity,
		Log:       c.config.Log,
	}, c.lead)
}

// lead looks at every Service once, then at those that a change affects.
func (c *Controller) lead(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName](),
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: queueName, MetricsProvider: c.metrics})
	sub := c.config.State.Subscribe()
	defer c.config.State.Unsubscribe(sub)

	l := &leader{Controller: c, queue: queue, echoes: map[types.NamespacedName]*echo{}}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { l.work(ctx) })
	}
	for service := range state.All(c.config.State.Snapshot().Reader(), state.Services) {
		queue.Add(types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
	}
	for {
		changes, err := sub.Next(ctx)
		if err != nil {
			break
		}
		r := c.config.State.Snapshot().Reader()
		for _, change := range changes {
			for _, key := range touched(r, change) {
				queue.Add(key)
			}
		}
	}
	queue.ShutDown()
	group.Wait()
	return nil
}

// touched lists the Services to look at after a change.
func touched(r *state.Reader, change state.Change) []types.NamespacedName {
	var keys []types.NamespacedName
	switch change.Kind {
	case &state.Services.KindInfo:
		for version := range change.Versions() {
			service := version.(metav1.Object)
			keys = append(keys, types.NamespacedName{Namespace: service.GetNamespace(), Name: service.GetName()})
		}
	case &state.EndpointSlices.KindInfo:
		for version := range change.Versions() {
			slice := version.(*discoveryv1.EndpointSlice)
			if slice.Labels[discoveryv1.LabelManagedBy] == linkerd.ExternalWorkloadSliceManager {
				keys = append(keys, types.NamespacedName{Namespace: slice.Namespace, Name: state.SliceService(slice)})
			}
		}
	case &state.ExternalWorkloads.KindInfo:
		var previous *workloadv1beta1.ExternalWorkload
		for version := range change.Versions() {
			now := version.(*workloadv1beta1.ExternalWorkload)
			if previous != nil || change.Old == nil {
				keys = append(keys, affected(r, previous, now)...)
			}
			previous = now
		}
		if change.New == nil {
			keys = append(keys, affected(r, previous, nil)...)
		}
	}
	return keys
}

// leader is a Controller that holds the Lease.
type leader struct {
	*Controller
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu     sync.Mutex
	echoes map[types.NamespacedName]*echo
}

// echo is what a Service's last writes look like once the State has them.
type echo struct {
	// versions by slice name; "" for a slice that was deleted.
	versions map[string]string
	deadline time.Time
}

func (l *leader) work(ctx context.Context) {
	for {
		key, stop := l.queue.Get()
		if stop {
			return
		}
		if err := l.sync(ctx, key); err != nil && ctx.Err() == nil {
			if l.queue.NumRequeues(key) < maxRetries {
				l.config.Log.Debug("slices of a Service not written, will try again", "service", key, "error", err)
				l.queue.AddRateLimited(key)
			} else {
				l.config.Log.Error("slices of a Service cannot be written", "service", key, "error", err)
				l.queue.Forget(key)
				l.metrics.drops.WithLabelValues(queueName).Inc()
			}
		} else {
			l.queue.Forget(key)
		}
		l.queue.Done(key)
	}
}

// sync makes a Service's slices what they should be.
func (l *leader) sync(ctx context.Context, key types.NamespacedName) error {
	r := l.config.State.Snapshot().Reader()
	if !l.heard(r, key) {
		// Deciding on slices older than our own writes would repeat them.
		l.queue.AddAfter(key, echoTimeout)
		return nil
	}
	service, ok := state.Get(r, state.Services, key.Namespace, key.Name)
	if !ok || !managed(service) {
		// The garbage collector removes a deleted Service's slices.
		return nil
	}
	var workloads []*workloadv1beta1.ExternalWorkload
	for ew := range state.List(r, state.ExternalWorkloads, key.Namespace) {
		if selects(service, ew.Labels) {
			workloads = append(workloads, ew)
		}
	}
	var existing []*discoveryv1.EndpointSlice
	for slice := range state.By(r, state.EndpointSlices, state.SlicesByService, key.String()) {
		if slice.Labels[discoveryv1.LabelManagedBy] == linkerd.ExternalWorkloadSliceManager {
			existing = append(existing, slice)
		}
	}
	plan := NewPlan(service, workloads, existing)
	if plan.Empty() {
		return nil
	}
	return l.execute(ctx, key, plan)
}

func (l *leader) execute(ctx context.Context, key types.NamespacedName, plan Plan) error {
	client := l.config.Client.DiscoveryV1().EndpointSlices(key.Namespace)
	wrote := &echo{versions: map[string]string{}, deadline: time.Now().Add(echoTimeout)}
	var errs []error
	// Additions before removals, so that nobody sees fewer endpoints than there are.
	for _, slice := range plan.Create {
		created, err := client.Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("create slice of %s: %w", key, err))
			continue
		}
		wrote.versions[created.Name] = created.ResourceVersion
	}
	for _, slice := range plan.Update {
		updated, err := client.Update(ctx, slice, metav1.UpdateOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("update slice %s of %s: %w", slice.Name, key, err))
			continue
		}
		wrote.versions[updated.Name] = updated.ResourceVersion
	}
	for _, slice := range plan.Delete {
		if err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete slice %s of %s: %w", slice.Name, key, err))
			continue
		}
		wrote.versions[slice.Name] = ""
	}
	l.mu.Lock()
	l.echoes[key] = wrote
	l.mu.Unlock()
	return errors.Join(errs...)
}

// heard reports whether the State holds what was last written for the Service,
// or something newer.
func (l *leader) heard(r *state.Reader, key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrote := l.echoes[key]
	if wrote == nil {
		return true
	}
	if time.Now().Before(wrote.deadline) {
		for name, version := range wrote.versions {
			slice, ok := state.Get(r, state.EndpointSlices, key.Namespace, name)
			switch {
			case version == "" && ok:
				return false
			case version != "" && !ok:
				return false
			case version != "" && ok:
				if order, err := resourceversion.CompareResourceVersion(slice.ResourceVersion, version); err == nil && order < 0 {
					return false
				}
			}
		}
	}
	delete(l.echoes, key)
	return true
}
