package app

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/internal/child"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/sandbox"
)

func newSandboxCommand() *cobra.Command {
	var serviceCIDR, podCIDR string
	var inside bool
	cmd := &cobra.Command{
		Use:   "sandbox [flags] -- COMMAND [ARG...]",
		Short: "Run a command in a network in which proxies work, without privileges",
		Long: `Run COMMAND in a user and network namespace of its own (Linux). All addresses of
the service and pod ranges are local there, and connections are tracked, which
is what Linkerd's proxies need; see linkerd-lite proxy-env --help. Nothing else
can be reached from inside. COMMAND sees itself as root; files belong to you as
before. What it leaves in the background ends with it. For instance:

  linkerd-lite sandbox -- linkerd-lite up DIR -- sh`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ranges []netip.Prefix
			for flag, value := range map[string]string{"service-cidr": serviceCIDR, "pod-cidr": podCIDR} {
				parsed, err := parseRanges(flag, value)
				if err != nil {
					return usage(err)
				}
				ranges = append(ranges, parsed...)
			}
			if inside {
				return enterSandbox(ranges, args)
			}
			return runSandbox(cmd, args, "--service-cidr="+serviceCIDR, "--pod-cidr="+podCIDR)
		},
	}
	cmd.Flags().StringVar(&serviceCIDR, "service-cidr", embedded.DefaultServiceCIDR, "ranges of cluster IPs, as given to up")
	cmd.Flags().StringVar(&podCIDR, "pod-cidr", embedded.DefaultPodCIDR, "ranges of pod IPs, as given to up")
	cmd.Flags().BoolVar(&inside, "inside", false, "set up the namespace that this process is in")
	// The flag is the program's message to itself.
	if err := cmd.Flags().MarkHidden("inside"); err != nil {
		panic(err)
	}
	return cmd
}

// runSandbox runs this program in new namespaces, and that runs COMMAND.
// SIGINT is COMMAND's: a terminal sends it to both. SIGTERM is passed on.
func runSandbox(cmd *cobra.Command, command []string, flags ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	args := append([]string{"sandbox", "--inside"}, flags...)
	process := sandbox.Command(self, append(append(args, "--"), command...)...)
	process.Stdin, process.Stdout, process.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	exited, err := child.Start(process, func() error { return sandbox.Start(process) })
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	for {
		select {
		case err := <-exited:
			return commandResult(err)
		case sig := <-signals:
			if sig == syscall.SIGINT {
				continue
			}
			if err := process.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("sandbox: passing %v on: %w", sig, err)
			}
		}
	}
}

// enterSandbox sets the namespace up and runs COMMAND, with this program on its
// PATH.
func enterSandbox(ranges []netip.Prefix, command []string) error {
	if err := sandbox.Enter(ranges); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := os.Setenv("PATH", child.Path()); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	code, err := sandbox.Run(command)
	if err != nil {
		return &exitError{code: exitNotFound, err: fmt.Errorf("sandbox: %w", err)}
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
}
