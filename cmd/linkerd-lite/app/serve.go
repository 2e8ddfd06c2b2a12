package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// newServeCommand is `serve`: the core against an API server that is there.
func newServeCommand() *cobra.Command {
	var (
		plane      = newControlPlaneFlags()
		logging    logOptions
		kubeconfig string
		write      bool
	)
	cmd := &cobra.Command{
		Version: programVersion(),
		Use:     "serve --kubeconfig FILE [flags]",
		Short:   "Serve the control plane's APIs from any API server",
		Long: `Serve destination and policy from the API server of a kubeconfig, with the code that
up runs, and nothing else: no API server, no controllers, no manifests, no identity.

Several can run against one API server; those that write (slices of external
workloads, status of policies) take turns under a Lease.`,
		Example: `  linkerd-lite serve --kubeconfig ~/.kube/config --write=false`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := plane.complete(); err != nil {
				return usage(err)
			}
			log, err := logging.logger(cmd.ErrOrStderr())
			if err != nil {
				return usage(err)
			}
			plane.linkerd.warn(cmd.Flags(), log)
			s := &serve{config: plane.ControlPlaneConfig, log: log, kubeconfig: kubeconfig, write: write, out: cmd.ErrOrStderr()}
			return s.run(cmd.Context())
		},
	}
	groups := newFlagGroups()
	flags := groups.FlagSet("run")
	flags.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the API server")
	flags.BoolVar(&write, "write", true, "write slices of external workloads and status of policies")
	plane.addFlags(groups, "destination", "policy", "admin")
	plane.linkerd.addServe(groups.FlagSet("idle"))
	logging.addFlags(groups.FlagSet("log"))
	installFlags(cmd, groups)
	return cmd
}

// serve is one run of the command.
type serve struct {
	config     embedded.ControlPlaneConfig
	log        *slog.Logger
	kubeconfig string
	write      bool
	out        io.Writer
}

func (s *serve) run(ctx context.Context) error {
	if s.kubeconfig == "" {
		return usage(errors.New("serve needs an API server: name one with --kubeconfig or KUBECONFIG"))
	}
	client, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", s.kubeconfig, err)
	}
	client.QPS = -1
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this replica: %w", err)
	}
	embedded.CaptureLibraryLogs(s.log)
	replica, err := embedded.NewReplica(embedded.ServeConfig{
		ControlPlane: s.config, Client: client, Write: s.write, Log: s.log,
		Holder: fmt.Sprintf("linkerd-lite-%s-%d", host, os.Getpid()),
	})
	if err != nil {
		return err
	}
	defer replica.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ended := lifecycle.Go("replica", func() error { return replica.Run(ctx) })
	select {
	case <-replica.Ready():
		printAddresses(s.out, replica.Addresses())
		fmt.Fprintln(s.out, "ready")
	case err := <-ended:
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// From here on a second signal ends the process at once, as Go does by itself.
	stop()
	return <-ended
}
