// Package lease runs what must run only once per cluster, under a Lease.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Timing of the Leases of a 2.20 control plane (D section 3.8, cluster section 4).
const (
	Duration      = 30 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Config names a Lease and who wants it.
type Config struct {
	Client          coordinationclient.LeasesGetter
	Namespace, Name string
	// Identity of the holder. One that stays the same over restarts takes its
	// Lease back at once after a crash, instead of waiting for its end.
	Identity string
	Log      *slog.Logger
	// Problems gets a Lease that cannot be read or written; Work is what is not done then, such as
	// "statuses of routes are not written".
	Problems *problems.Table
	Work     string
}

// Run calls lead each time the Lease is won, with a context that ends when the
// Lease is lost or ctx ends. The Lease is given back after lead has returned.
// Run returns nil once ctx has ended, or the first error of lead.
func Run(ctx context.Context, config Config, lead func(context.Context) error) error {
	for ctx.Err() == nil {
		if err := hold(ctx, config, lead); err != nil {
			return err
		}
	}
	return nil
}

// hold waits for the Lease and leads once.
func hold(ctx context.Context, config Config, lead func(context.Context) error) error {
	// The elector outlives ctx until lead has returned, so that nobody else
	// leads meanwhile.
	electorCtx, stopElector := context.WithCancel(context.WithoutCancel(ctx))
	defer stopElector()
	won := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &watchedLock{config: config, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name},
			Client:     config.Client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: config.Identity},
		}},
		LeaseDuration:   Duration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            config.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { won <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s/%s: %w", config.Namespace, config.Name, err)
	}
	ended := lifecycle.Go("election for "+config.Name, func() error {
		elector.Run(electorCtx)
		return nil
	})
	defer func() {
		stopElector()
		<-ended
	}()

	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	case held := <-won:
		config.Log.Info("lease won", "lease", config.Name, "holder", config.Identity)
		leadCtx, stopLeading := context.WithCancel(ctx)
		defer stopLeading()
		defer context.AfterFunc(held, stopLeading)()
		err := lead(leadCtx)
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if ctx.Err() == nil {
			config.Log.Warn("lease lost", "lease", config.Name, "holder", config.Identity)
		}
		return nil
	}
}
