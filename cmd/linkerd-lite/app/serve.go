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

	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// newServeCommand is `serve`: the core against an API server that is there.
func newServeCommand() *cobra.Command {
	var (
		options    coreOptions
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.complete(); err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			log, err := logging.logger(cmd.ErrOrStderr())
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			options.linkerd.warn(cmd.Flags(), log)
			s := &serve{options: &options, log: log, kubeconfig: kubeconfig, write: write, out: cmd.ErrOrStderr()}
			return s.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	options.addFlags(flags)
	logging.addFlags(flags)
	flags.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the API server")
	flags.BoolVar(&write, "write", true, "write slices of external workloads and status of policies")
	return cmd
}

// serve is one run of the command.
type serve struct {
	options    *coreOptions
	log        *slog.Logger
	kubeconfig string
	write      bool
	out        io.Writer
}

func (s *serve) run(ctx context.Context) error {
	if s.kubeconfig == "" {
		return &exitError{code: exitUsage, err: errors.New("serve needs an API server: name one with --kubeconfig or KUBECONFIG")}
	}
	client, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", s.kubeconfig, err)
	}
	client.QPS = -1
	kube, err := protobufClient(client)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", s.kubeconfig, err)
	}
	bound, err := s.options.addresses.bind("destination", "policy", "admin")
	if err != nil {
		return err
	}
	defer bound.close()
	captureLibraryLogs(s.log)

	registry := prometheus.NewRegistry()
	registry.MustRegister(promcollectors.NewGoCollector(), promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}))
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this replica: %w", err)
	}
	controlPlane, err := newCore(core{
		options: s.options, log: s.log, registry: registry, listeners: bound,
		client: client, kube: kube, holder: fmt.Sprintf("linkerd-lite-%s-%d", host, os.Getpid()),
	})
	if err != nil {
		return err
	}
	parts, err := controlPlane.parts(s.write, []string{"admin"}, nil)
	if err != nil {
		return err
	}
	var supervisor *lifecycle.Supervisor
	parts = append(parts, lifecycle.Part{Name: "admin", Run: admin.New(admin.Config{
		Listener: bound["admin"],
		Ready:    func() bool { return supervisor.IsReady() },
		Status:   func() []lifecycle.Status { return supervisor.Status() },
		Gatherer: registry,
		Pprof:    s.options.enablePprof,
		Log:      s.log,
	}).Run})
	if supervisor, err = lifecycle.New(lifecycle.Config{Log: s.log, StopTimeout: stopTimeout, FailureTimeout: failureTimeout}, parts...); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- supervisor.Run(ctx) }()
	select {
	case <-supervisor.Ready():
		for _, spec := range listenerSpecs {
			if l, ok := bound[spec.name]; ok {
				fmt.Fprintf(s.out, "%-12s %s\n", spec.name, l.Addr())
			}
		}
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
