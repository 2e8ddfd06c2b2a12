package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes besides those of COMMAND.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitNotFound is a COMMAND that cannot be started, as for shells.
	exitNotFound = 127
	// exitSignal is added to the number of the signal that ended us.
	exitSignal = 128
)

// exitError ends the program with a code of its own. A nil error was reported already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs the program with these arguments and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// cobra takes flags from here that libraries register when they are loaded,
	// Kubernetes' --version among them.
	pflag.CommandLine = pflag.NewFlagSet("linkerd-lite", pflag.ContinueOnError)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{code: exitFailure, err: err}
	}
	if exit.err != nil {
		fmt.Fprintf(stderr, "linkerd-lite: %v\n", exit.err)
	}
	return exit.code
}

// exitNow ends the process at once, for a second signal.
func exitNow(code int) { os.Exit(code) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "linkerd-lite",
		Short: "A cluster that runs Linkerd, without the cluster",
		Long: `linkerd-lite behaves like a Kubernetes cluster that runs Linkerd, in one process:
it applies the manifests of a directory to a real API server and serves the
APIs that Linkerd's proxies dial.

Exit codes: 0 success, 1 failure, 2 wrong usage, 128+n ended by signal n;
of up with -- COMMAND that of COMMAND, 127 if it could not be started;
of kubectl that of kubectl.`,
		Version:           programVersion(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exitError{code: exitUsage, err: fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(
		newUpCommand(),
		newServeCommand(),
		newCheckCommand(),
		newDiagnosticsCommand(),
		newIdentityCommand(),
		newKubectlCommand(),
		newProxyEnvCommand(),
		newSandboxCommand(),
		newVersionCommand(),
	)
	return root
}
