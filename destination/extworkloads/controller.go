package extworkloads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

const (
	// maxRetries is how often a Service that cannot be written is tried again.
	maxRetries = 15
	// workers is how many Services are written at a time.
	workers = 4
	// echoTimeout is how long a Service waits for its own writes to come back
	// from the API server before it is looked at again regardless: somebody may
	// have deleted a slice before the State held it.
	echoTimeout = time.Second
)

// Config is what the controller needs.
type Config struct {
	State *state.State
	// Graph gets the views of what is to be written.
	Graph  *view.Graph
	Client kubernetes.Interface
	// Leases keeps the Lease; it should be one whose writes no policy of a user refuses.
	Leases coordinationclient.LeasesGetter
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
	loop    *reconcile.Loop[basedPlan]
}

// New returns a controller. It does no I/O.
func New(config Config) (*Controller, error) {
	metrics, err := newQueueMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	c := &Controller{config: config, metrics: metrics}
	c.loop = reconcile.New(reconcile.Config[basedPlan]{
		State: config.State,
		Plans: view.NewSet(config.Graph, "slices", planOf, samePlan),
		Kinds: []*state.KindInfo{&state.Services.KindInfo},
		Write: c.write,
		Lease: lease.Config{
			Client:    config.Leases,
			Namespace: config.Namespace,
			Name:      linkerd.DestinationWriteLease,
			Identity:  config.Identity,
			Log:       config.Log,
			Problems:  config.State.Problems(),
			Work:      "no EndpointSlices of ExternalWorkloads are written",
		},
		Workers:  workers,
		Patience: echoTimeout,
		Backoff:  workqueue.DefaultTypedControllerRateLimiter[reconcile.Key],
		Retries:  maxRetries,
		GaveUp:   func(reconcile.Key) { metrics.drops.WithLabelValues(queueName).Inc() },
		Source:   "workloads",
		Left:     func(int) {},
		Queue:    queueName,
		Metrics:  metrics,
	})
	return c, nil
}

// Run writes slices until ctx ends, and returns nil then.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// write carries out a Service's plan.
func (c *Controller) write(ctx context.Context, key reconcile.Key, plan basedPlan) (reconcile.Written, error) {
	client := c.config.Client.DiscoveryV1().EndpointSlices(key.Namespace)
	written := reconcile.Written{}
	var errs []error
	failed := func(what string, err error) {
		errs = append(errs, fmt.Errorf("%s of %s/%s: %w", what, key.Namespace, key.Name, err))
	}
	// Additions before removals, so that nobody sees fewer endpoints than there are.
	for _, slice := range plan.Create {
		created, err := client.Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			failed("create slice", err)
			continue
		}
		written[created.Name] = created.ResourceVersion
	}
	for _, slice := range plan.Update {
		updated, err := client.Update(ctx, slice, metav1.UpdateOptions{})
		if err != nil {
			failed("update slice "+slice.Name, err)
			continue
		}
		written[updated.Name] = updated.ResourceVersion
	}
	for _, slice := range plan.Delete {
		if err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			failed("delete slice "+slice.Name, err)
			continue
		}
		written[slice.Name] = ""
	}
	return written, errors.Join(errs...)
}
