package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy"
)

const (
	// reconcilePeriod is how often everything is looked at again, in case a
	// change was missed or a patch given up.
	reconcilePeriod = 10 * time.Second
	// DefaultPatchTimeout is how long a patch may take.
	DefaultPatchTimeout = 5 * time.Second
	// DefaultDeploymentName is the Deployment that runs Linkerd's policy controller.
	DefaultDeploymentName = "linkerd-destination"
	// writers is how many patches are under way at once.
	writers = 16
	// The wait before a patch that failed is tried again.
	minRetry, maxRetry = 5 * time.Millisecond, 10 * time.Second
)

// Config is what a Writer needs.
type Config struct {
	State *state.State
	// Client patches; Kube keeps the Lease.
	Client dynamic.Interface
	Kube   kubernetes.Interface
	// Namespace of the control plane, where the Lease lives.
	Namespace string
	// DeploymentName is the Deployment that owns the Lease,
	// DefaultDeploymentName if empty.
	DeploymentName string
	// Identity of the Lease's holder.
	Identity string
	// ClusterNetworks is a list of address ranges.
	ClusterNetworks string
	// PatchTimeout is DefaultPatchTimeout if zero.
	PatchTimeout time.Duration
	// Log may be nil.
	Log *slog.Logger
	// Registerer gets the metrics of policy-status 5; nil means no metrics.
	Registerer prometheus.Registerer
}

// Writer keeps the status of objects what it should be.
type Writer struct {
	config          Config
	log             *slog.Logger
	index           *index
	clusterNetworks []netip.Prefix
	metrics         *metrics
}

// New returns a writer. It does no I/O. It adds derived kinds to the state,
// which therefore must not run or be read yet.
func New(config Config) (*Writer, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.PatchTimeout == 0 {
		config.PatchTimeout = DefaultPatchTimeout
	}
	if config.DeploymentName == "" {
		config.DeploymentName = DefaultDeploymentName
	}
	w := &Writer{config: config, log: config.Log}
	var err error
	if w.clusterNetworks, err = policy.ParseNetworks(config.ClusterNetworks); err != nil {
		return nil, fmt.Errorf("cluster-networks: %w", err)
	}
	w.index = newIndex(config.State, &former{config.Log})
	if w.metrics, err = newMetrics(config.Registerer); err != nil {
		return nil, err
	}
	return w, nil
}

// Run writes status while it holds the Lease, until ctx ends, and returns nil then.
func (w *Writer) Run(ctx context.Context) error {
	if w.config.State.WaitSynced(ctx) != nil {
		return nil
	}
	if err := w.createLease(ctx); err != nil && ctx.Err() == nil {
		// Whoever wants it first creates it then, without labels and owner.
		w.log.Warn("lease not prepared", "error", err)
	}
	return lease.Run(ctx, lease.Config{
		Client:    w.config.Kube.CoordinationV1(),
		Namespace: w.config.Namespace,
		Name:      linkerd.PolicyWriteLease,
		Identity:  w.config.Identity,
		Log:       w.log,
	}, w.lead)
}

// leader is the work of one time that the Lease was held.
type leader struct {
	*Writer
	queue workqueue.TypedRateLimitingInterface[object]

	mu sync.Mutex
	// patched has the version on which the last patch of each object was based.
	// A version is patched once: what the patch made of it is still to come, or
	// it was refused for good.
	patched map[object]string
}

// lead looks at every object, and then at those whose status may have changed.
func (w *Writer) lead(ctx context.Context) error {
	l := &leader{
		Writer:  w,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[object](minRetry, maxRetry)),
		patched: map[object]string{},
	}
	sub := w.config.State.Subscribe()
	defer w.config.State.Unsubscribe(sub)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer l.stop()
		return l.follow(ctx, sub)
	})
	group.Go(func() error { return l.reconcile(ctx) })
	for range writers {
		group.Go(func() error {
			for {
				obj, stopped := l.queue.Get()
				if stopped {
					return nil
				}
				l.look(ctx, obj)
				l.queue.Done(obj)
			}
		})
	}
	return group.Wait()
}

// stop ends the workers. What was queued is the next leader's.
func (l *leader) stop() {
	l.metrics.drops.Add(float64(l.queue.Len()))
	l.queue.ShutDown()
}

func (l *leader) follow(ctx context.Context, sub *state.Subscription) error {
	for {
		changes, err := sub.Next(ctx)
		if err != nil {
			return nil
		}
		r := l.config.State.Snapshot().Reader()
		for _, change := range changes {
			l.index.affected(r, change, l.queue.Add)
		}
	}
}

func (l *leader) reconcile(ctx context.Context) error {
	ticker := time.NewTicker(reconcilePeriod)
	defer ticker.Stop()
	for {
		l.index.all(l.config.State.Snapshot().Reader(), l.queue.Add)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look writes an object's status if it is not what it should be.
func (l *leader) look(ctx context.Context, obj object) {
	patch, differs := l.patch(l.config.State.Snapshot().Reader(), obj, metav1.Now())
	if !differs {
		l.settled(obj)
		return
	}
	if !l.first(obj, patch.Metadata.ResourceVersion) {
		return
	}
	l.metrics.enqueues.Inc()
	l.metrics.dequeues.Inc()
	if ctx.Err() != nil {
		l.metrics.drops.Inc()
		return
	}
	err := l.send(ctx, patch)
	switch {
	case err == nil:
		l.queue.Forget(obj)
		l.log.Info("status written", "kind", patch.kind.GVK.Kind, "object", obj.namespace+"/"+obj.name)
		return
	case apierrors.IsNotFound(err):
		// It went in the meantime, or its kind has no status.
		l.queue.Forget(obj)
	case apierrors.IsInvalid(err):
		// It would be refused again, however often it is sent: with the entries
		// of other controllers there may be too many. A new version is tried.
		l.queue.Forget(obj)
		l.log.Warn("status not written", "kind", patch.kind.GVK.Kind, "object", obj.namespace+"/"+obj.name, "error", err)
		return
	case ctx.Err() != nil:
	default:
		// A conflict means that a newer version is on its way here.
		level := slog.LevelWarn
		if apierrors.IsConflict(err) {
			level = slog.LevelDebug
		}
		l.log.Log(ctx, level, "status not written, will try again", "kind", patch.kind.GVK.Kind, "object", obj.namespace+"/"+obj.name, "error", err)
		l.queue.AddRateLimited(obj)
	}
	l.settled(obj)
}

// first tells whether that version has not been patched yet, and remembers
// that it is now.
func (l *leader) first(obj object, version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version != "" && l.patched[obj] == version {
		return false
	}
	l.patched[obj] = version
	return true
}

// settled forgets what was patched.
func (l *leader) settled(obj object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.patched, obj)
}

// send patches, and counts what comes of it.
func (w *Writer) send(ctx context.Context, patch *patch) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode status of %s: %w", patch.kind.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.PatchTimeout)
	defer cancel()
	start := time.Now()
	_, err = w.config.Client.Resource(patch.kind.GVR).Namespace(patch.Metadata.Namespace).Patch(ctx, patch.Metadata.Name,
		types.MergePatchType, body, metav1.PatchOptions{FieldManager: linkerd.PolicyControllerName}, "status")
	if errors.Is(err, context.DeadlineExceeded) {
		w.metrics.timeouts.Inc()
		return err
	}
	w.metrics.duration.Observe(time.Since(start).Seconds())
	if err != nil {
		w.metrics.errors.Inc()
	} else {
		w.metrics.patches.Inc()
	}
	return err
}
