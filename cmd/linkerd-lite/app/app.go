package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// Exit codes besides those of COMMAND.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitPanic is a fault of this program: sysexits.h calls it EX_SOFTWARE. A
	// panic that Go itself reports would end with 2, as wrong usage does.
	exitPanic = 70
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

// usage makes an error one of how the program was called: flags, their values,
// arguments. It ends with exitUsage, whichever command it comes from.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitUsage, err: err}
}

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
	if lifecycle.Panicked(err) {
		exit.code = exitPanic
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

  linkerd-lite up DIR                          runs a cluster with the manifests in DIR
  linkerd-lite up DIR -- ./test.sh             the same for as long as ./test.sh runs
  linkerd-lite check                           says whether all is well
  linkerd-lite kubectl get pods -A             is kubectl for that cluster
  linkerd-lite diagnostics endpoints A:80      prints what a proxy is told

Exit codes: 0 success, 1 failure, 2 wrong usage, 70 a fault of this program, 128+n ended by signal n;
of up with -- COMMAND that of COMMAND, 127 if it could not be started;
of kubectl that of kubectl.`,
		Version:           programVersion(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetVersionTemplate(versionText())
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run a cluster:"},
		&cobra.Group{ID: groupAsk, Title: "Look at it and change it:"},
		&cobra.Group{ID: groupProxy, Title: "Run proxies in it:"},
	)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			err = flagError(invalid.GetFlag().Name, invalid.GetValue(), "%v", invalid.Unwrap())
		}
		return usage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
	})
	for _, group := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{groupRun, []*cobra.Command{newUpCommand(), newRunCommand(), newListCommand(), newStopCommand(), newServeCommand()}},
		{groupAsk, []*cobra.Command{newCheckCommand(), newKubectlCommand(), newDiagnosticsCommand()}},
		{groupProxy, []*cobra.Command{newIdentityCommand(), newProxyEnvCommand(), newSandboxCommand()}},
		{"", []*cobra.Command{newVersionCommand(), newSandboxInitCommand(), newProxyCommand()}},
	} {
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	strictArguments(root)
	return root
}

// Groups of commands in the help.
const (
	groupRun   = "run"
	groupAsk   = "ask"
	groupProxy = "proxy"
)

// strictArguments makes wrong arguments of all commands errors of usage, names
// of commands that there are not among them.
func strictArguments(cmd *cobra.Command) {
	check := cmd.Args
	if cmd.HasSubCommands() {
		check = unknownCommand
		if cmd.RunE == nil {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	if check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		strictArguments(sub)
	}
}

// unknownCommand is for commands that have others below them.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}
