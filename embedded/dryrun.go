package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// DryRun plans the directories of config against the cluster that runs on its
// data directory, or against a temporary one, of which started is told.
func DryRun(ctx context.Context, config Config, started func(*Cluster)) (*manifests.Plan, error) {
	path := config.DataDir
	if path == "" && !config.Ephemeral {
		var err error
		if path, err = datadir.Default(config.Dirs); err != nil {
			return nil, err
		}
	}
	if path == "" || !datadir.Running(path) {
		return planAgainstScratch(ctx, config, started)
	}
	info, err := datadir.ReadRunInfo(filepath.Join(path, datadir.RunFileName))
	if err != nil {
		return nil, err
	}
	client, err := clientcmd.BuildConfigFromFlags("", info.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", info.Kubeconfig, err)
	}
	client.QPS = -1
	return planAgainst(ctx, &config, client, manifestsDir(path), false)
}

// planAgainstScratch makes a cluster without the manifests, that is gone afterwards.
func planAgainstScratch(ctx context.Context, config Config, started func(*Cluster)) (*manifests.Plan, error) {
	scratch := config
	scratch.Dirs, scratch.DataDir, scratch.Ephemeral, scratch.ControlPlane.Addresses.Random = nil, "", true, true
	cluster, err := New(ctx, scratch)
	if err != nil {
		return nil, err
	}
	started(cluster)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := lifecycle.Go("cluster", func() error { return cluster.Run(ctx) })
	select {
	case <-cluster.Ready():
	case err := <-ended:
		return nil, errors.Join(err, cluster.Close())
	}
	plan, planErr := planAgainst(ctx, &config, cluster.client, manifestsDir(cluster.dir.Path()), true)
	stop()
	return plan, errors.Join(<-ended, planErr, cluster.Close())
}

// planAgainst plans against an API server; scratch says that it is one of a
// moment, to which the plan may do as it likes.
func planAgainst(ctx context.Context, config *Config, client *rest.Config, stateDir string, scratch bool) (*manifests.Plan, error) {
	builtin, err := config.builtin()
	if err != nil {
		return nil, err
	}
	syncer, err := newSyncer(config, client, builtin, stateDir)
	if err != nil {
		return nil, err
	}
	plan, err := syncer.DryRun(ctx, scratch)
	if err != nil {
		return nil, fmt.Errorf("dry run: %w", err)
	}
	return plan, nil
}

// manifestsDir is where the inventory of manifests is.
func manifestsDir(dataDir string) string { return filepath.Join(dataDir, "manifests") }
