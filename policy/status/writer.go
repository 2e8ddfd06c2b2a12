package status

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

const (
	// DefaultPatchTimeout is how long a patch may take.
	DefaultPatchTimeout = 5 * time.Second
	// DefaultDeploymentName is the Deployment that runs Linkerd's policy controller.
	DefaultDeploymentName = "linkerd-destination"
	// writers is how many patches are under way at once.
	writers = 16
	// gather is how long a status waits after the first reason to write it. Who
	// changes an object twice in quick succession, or reads it and writes it back,
	// would often find that its status was written in between.
	gather = 10 * time.Millisecond
	// The wait before a patch that failed is tried again.
	minRetry, maxRetry = 5 * time.Millisecond, 10 * time.Second
)

// Config is what a Writer needs.
type Config struct {
	State *state.State
	// Graph gets the views of the statuses.
	Graph *view.Graph
	// Routes are those of State.
	Routes *gateway.Routes
	// Client patches; Kube keeps the Lease, and should be one whose writes no policy of a user
	// refuses.
	Client dynamic.Interface
	Kube   kubernetes.Interface
	// DeploymentName is the Deployment that owns the Lease,
	// DefaultDeploymentName if empty.
	DeploymentName string
	// Identity of the Lease's holder.
	Identity string
	// PatchTimeout is DefaultPatchTimeout if zero.
	PatchTimeout time.Duration
	// Log may be nil.
	Log *slog.Logger
	// Registerer gets the metrics of policy-status 5; nil means no metrics.
	Registerer prometheus.Registerer

	// Settings say where the Lease lives and which networks are the cluster's.
	linkerd.Settings
}

// Writer keeps the status of objects what it should be.
type Writer struct {
	config          Config
	log             *slog.Logger
	index           *index
	clusterNetworks []netip.Prefix
	metrics         *metrics
	plans           *view.Set[reconcile.Key, plan]
	loop            *reconcile.Loop[plan]
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
	w := &Writer{config: config, log: config.Log, clusterNetworks: config.PolicyNetworks().Ranges()}
	var err error
	w.index = newIndex(config.State, config.Routes)
	if w.metrics, err = newMetrics(config.Registerer); err != nil {
		return nil, err
	}
	w.plans = view.NewSet(config.Graph, "statuses", w.plan, samePlan)
	w.loop = reconcile.New(reconcile.Config[plan]{
		State: config.State,
		Plans: w.plans,
		Kinds: w.index.kinds(),
		Write: w.write,
		Lease: lease.Config{
			Client:    config.Kube.CoordinationV1(),
			Namespace: config.ControlPlaneNamespace,
			Name:      linkerd.PolicyWriteLease,
			Identity:  config.Identity,
			Log:       w.log,
			Problems:  config.State.Problems(),
			Work:      "no status of routes, EgressNetworks and rate limits is written",
		},
		Workers: writers,
		Gather:  gather,
		Backoff: func() workqueue.TypedRateLimiter[reconcile.Key] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Key](minRetry, maxRetry)
		},
		Source: "status",
		Left:   func(n int) { w.metrics.drops.Add(float64(n)) },
	})
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
	return w.loop.Run(ctx)
}
