package app

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// dryRun plans the directories against the instance that runs on the data
// directory, or against a temporary one, and prints the plan. The error says
// that something would fail.
func (u *up) dryRun(ctx context.Context) error {
	path := u.options.dataDir
	if path == "" && !u.options.ephemeral {
		var err error
		if path, err = datadir.Default(u.options.dirs); err != nil {
			return err
		}
	}
	if path != "" && datadir.Running(path) {
		info, err := readRunInfo(filepath.Join(path, datadir.RunFileName))
		if err != nil {
			return err
		}
		client, err := clientcmd.BuildConfigFromFlags("", info.Kubeconfig)
		if err != nil {
			return fmt.Errorf("kubeconfig %s: %w", info.Kubeconfig, err)
		}
		client.QPS = -1
		planner := &instance{options: u.options, log: u.log, out: u.stderr, stateDir: filepath.Join(path, "manifests")}
		return u.plan(ctx, planner, client, false)
	}
	// Nothing runs: a cluster without the manifests, that is gone afterwards.
	dirs := u.options.dirs
	u.options.dirs, u.options.dataDir, u.options.ephemeral, u.options.core.addresses.random = nil, "", true, true
	ctx, u.stop = context.WithCancel(ctx)
	defer u.stop()
	lastLine := captureLibraryLogs(u.log)
	scratch, err := newInstance(ctx, u.options, u.log, u.stderr, nil)
	if err != nil {
		return err
	}
	nameLibraryDeaths(scratch.supervisor, lastLine, u.stderr)
	u.ended = make(chan error, 1)
	go func() { u.ended <- scratch.run(ctx) }()
	select {
	case <-scratch.supervisor.Ready():
	case err := <-u.ended:
		return err
	}
	u.options.dirs = dirs
	planErr := u.plan(ctx, scratch, scratch.client, true)
	u.stop()
	if err := <-u.ended; err != nil {
		return err
	}
	if err := scratch.close(); err != nil {
		u.log.Warn("cleaning up", "error", err)
	}
	return planErr
}

func (u *up) plan(ctx context.Context, planner *instance, client *rest.Config, scratch bool) error {
	builtin, err := planner.builtin()
	if err != nil {
		return err
	}
	syncer, err := planner.newSyncer(client, builtin, u.options.dirs)
	if err != nil {
		return err
	}
	plan, err := syncer.DryRun(ctx, scratch)
	if err != nil {
		return fmt.Errorf("dry run: %w", err)
	}
	if u.json {
		if err := writeJSON(u.stdout, plan); err != nil {
			return err
		}
	} else {
		fmt.Fprint(u.stdout, plan.String())
	}
	if n := len(plan.Failed) + len(plan.Waiting); n > 0 {
		return fmt.Errorf("dry run: %s would not be applied", count(n, "object"))
	}
	return nil
}
