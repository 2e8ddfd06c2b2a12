package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/memory"
	"github.com/linkerd-lite/linkerd-lite/internal/terminal"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

func newUpCommand() *cobra.Command {
	var (
		options = newClusterFlags()
		logging logOptions
		output  string
		dryRun  bool
	)
	cmd := &cobra.Command{
		Version: programVersion(),
		Use:     "up [DIR...] [flags] [-- COMMAND [ARG...]]",
		Short:   "Run a cluster with the manifests of these directories, until Ctrl-C or until COMMAND ends",
		Long: `Run a cluster in this process, apply the manifests in each DIR and follow their changes.
The DIR - is the standard input, which is read once.

With -- COMMAND, COMMAND is started once everything has settled, with KUBECONFIG and
LINKERD_LITE_{DESTINATION,POLICY,IDENTITY,ADMIN,SHIM_INBOUND}_ADDR in its environment; when it ends,
the cluster stops, and the exit code is COMMAND's.`,
		Example: `  linkerd-lite up manifests/                                 # until Ctrl-C
  linkerd-lite up base/ staging/ --inject enabled            # two directories, proxies injected
  linkerd-lite up manifests/ --dry-run                       # only say what would be done
  linkerd-lite up manifests/ --ephemeral --random-ports -- go test ./...   # in CI`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dirs, command, err := splitAtDash(cmd, args)
			if err != nil {
				return err
			}
			if output != "text" && output != "json" {
				return usage(fmt.Errorf("--output=%s: must be text or json", output))
			}
			options.config.Dirs, options.config.Settle = dirs, len(command) > 0
			options.config.Stdin = cmd.InOrStdin()
			if err := options.complete(); err != nil {
				return usage(err)
			}
			if err := manifests.CheckDirs(dirs); err != nil {
				return err
			}
			watched := terminal.NewOutput(cmd.ErrOrStderr())
			screen := terminal.NewScreen(cmd.ErrOrStderr(), watched)
			var stderr io.Writer = watched
			if screen != nil {
				stderr = screen
			}
			log, err := logging.logger(stderr)
			if err != nil {
				return usage(err)
			}
			options.plane.linkerd.warn(cmd.Flags(), log)
			up := &up{
				config:  options.config,
				log:     log,
				command: command,
				json:    output == "json",
				stdin:   cmd.InOrStdin(),
				stdout:  cmd.OutOrStdout(),
				stderr:  stderr,
				closed:  watched.Closed(),
				screen:  screen,

				commandStderr: cmd.ErrOrStderr(),
			}
			up.config.Log, up.config.Out, up.config.OnReady, up.config.OnSlow = log, up.stderr, up.partReady, up.partSlow
			if dryRun {
				return up.dryRun(cmd.Context())
			}
			return up.run(cmd.Context())
		},
	}
	groups := newFlagGroups()
	flags := groups.FlagSet("run")
	flags.BoolVar(&dryRun, "dry-run", false, "try the manifests with all webhooks against the running or a temporary instance, print the plan, and exit 1 if anything would fail")
	flags.StringVarP(&output, "output", "o", "text", "text, or json for one object on standard output once ready")
	options.addFlags(groups)
	logging.addFlags(groups.FlagSet("log"))
	installFlags(cmd, groups)
	return cmd
}

// splitAtDash gives the directories and COMMAND, which is nil without --.
func splitAtDash(cmd *cobra.Command, args []string) (dirs, command []string, err error) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		return args, nil, nil
	}
	if dash == len(args) {
		return nil, nil, usage(errors.New("no COMMAND after --"))
	}
	return args[:dash], args[dash:], checkCommand(args[dash])
}

// up is one run of the command.
type up struct {
	config  embedded.Config
	log     *slog.Logger
	command []string
	json    bool
	stdin   io.Reader
	stdout  io.Writer
	// stderr is for what we say, commandStderr the same output for COMMAND.
	stderr, commandStderr io.Writer
	// closed is closed when nobody reads stderr any more.
	closed <-chan struct{}
	// screen is what stderr is if it is a terminal.
	screen *terminal.Screen

	// began and running are when the program and the parts of the cluster began.
	began, running time.Time

	signals chan os.Signal
	cluster *embedded.Cluster
	// ended gets what the instance's run returned.
	ended <-chan error
	stop  context.CancelFunc
}

func (u *up) run(ctx context.Context) error {
	u.began = time.Now()
	memory.Hurry()
	u.signals = make(chan os.Signal, 8)
	signal.Notify(u.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(u.signals)
	// Whoever listens to it gets an error instead when an output is closed.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, u.stop = context.WithCancel(ctx)
	defer u.stop()

	lastLine := embedded.CaptureLibraryLogs(u.log)
	cluster, err := embedded.New(ctx, u.config)
	if err != nil {
		return err
	}
	u.cluster = cluster
	cluster.TakeProcess(lastLine)
	for _, notice := range cluster.Notices() {
		u.printf("%s\n", notice)
	}
	u.running = time.Now()
	u.ended = lifecycle.Go("cluster", func() error { return cluster.Run(ctx) })
	result := u.drive(ctx)
	if err := cluster.Close(); err != nil {
		u.log.Warn("cleaning up", "error", err)
	}
	return result
}

// drive waits for readiness, runs COMMAND if there is one, and returns when
// the instance has ended.
func (u *up) drive(ctx context.Context) error {
	if err := u.awaitReady(); err != nil {
		return err
	}
	if err := u.announce(); err != nil {
		return errors.Join(err, u.stopped())
	}
	if len(u.command) > 0 {
		return u.runCommand(ctx)
	}
	idle := time.NewTimer(memory.SettleTime)
	defer idle.Stop()
	for {
		select {
		case <-idle.C:
			memory.Trim()
		case err := <-u.ended:
			return err
		case <-u.closed:
			return u.unread()
		case <-u.signals:
			return u.stopped()
		}
	}
}

// progressInterval is the time between two looks at a start.
const progressInterval = 200 * time.Millisecond

// errEnded says that the instance has ended, without an error.
var errEnded = errors.New("ended before it was ready")

// awaitReady waits for readiness. On a terminal it shows how far the start is.
func (u *up) awaitReady() error {
	var tick <-chan time.Time
	if u.screen != nil {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-tick:
			u.showProgress()
		case <-u.cluster.Ready():
			u.clearProgress()
			return nil
		case err := <-u.ended:
			u.showProgress()
			if err == nil {
				err = errEnded
			}
			return err
		case <-u.closed:
			return u.unread()
		case sig := <-u.signals:
			if err := u.stopped(); err != nil {
				return err
			}
			return &exitError{code: exitSignal + number(sig)}
		}
	}
}

// clearProgress leaves the place to what the manifests said and to the addresses.
func (u *up) clearProgress() {
	if u.screen != nil {
		_ = u.screen.Show(nil)
	}
}

func (u *up) showProgress() {
	if u.screen == nil {
		return
	}
	// What cannot be written is noticed by the output itself.
	_ = u.screen.Show(u.cluster.Progress(time.Since(u.running)))
}

// stopped stops the instance; a signal in the meantime ends the process.
func (u *up) stopped() error {
	u.stop()
	if u.screen != nil {
		u.printf("stopping; Ctrl-C again ends it at once\n")
	}
	select {
	case err := <-u.ended:
		return err
	case sig := <-u.signals:
		exitNow(exitSignal + number(sig))
		return nil
	}
}

// unread is the end when nobody reads our output any more.
func (u *up) unread() error {
	if err := u.stopped(); err != nil {
		return err
	}
	return &exitError{code: exitSignal + number(syscall.SIGPIPE)}
}

func number(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return int(s)
	}
	return 0
}

func (u *up) printf(format string, args ...any) { fmt.Fprintf(u.stderr, format, args...) }

// partReady prints a line per part, where no screen shows the same.
func (u *up) partReady(status lifecycle.Status) {
	if u.screen != nil {
		return
	}
	u.printf("  %-12s %5.2f s, at %5.2f s\n", status.Name, status.Start.Seconds(), status.Ready.Seconds())
}

// partSlow says what holds up the start, where no screen shows the same.
func (u *up) partSlow(status lifecycle.Status) {
	if u.screen != nil {
		return
	}
	waits := status.WaitsFor
	if waits == "" {
		waits = "nothing has failed so far"
	}
	u.printf("  %-12s still starting after %.0f s: %s\n", status.Name, status.Start.Seconds(), waits)
}

// announce prints the addresses and writes the final run.json.
func (u *up) announce() error {
	info, err := u.cluster.Announce(time.Since(u.began))
	if err != nil {
		return err
	}
	printAddresses(u.stderr, info.Addresses)
	u.printf("%-12s %s\n", "kubeconfig", info.Kubeconfig)
	if u.json {
		if err := diagnostics.WriteJSON(u.stdout, info); err != nil {
			return fmt.Errorf("writing the description: %w", err)
		}
	}
	u.printf("ready in %.2f s\n", info.ReadySeconds)
	if len(u.command) == 0 {
		home, _ := os.UserHomeDir() // without one the paths are as they are
		u.printf("%s", nextSteps(&info, home, len(datadir.List())))
	}
	memory.Trim()
	return nil
}

// nextSteps says what to try with a cluster that is ready, beside others.
func nextSteps(info *datadir.RunInfo, home string, running int) string {
	which := ""
	if running > 1 {
		which = " --data-dir " + shellPath(info.DataDir, home)
	}
	return fmt.Sprintf(`
In another terminal:
  linkerd-lite check%[1]s
  linkerd-lite kubectl%[1]s get pods -A
  export KUBECONFIG=%[2]s

`, which, shellPath(info.Kubeconfig, home))
}

// shellPath is a path as people write it in a shell, so that the usual ones fit on a line.
func shellPath(path, home string) string {
	tilde := ""
	if below, ok := strings.CutPrefix(path, home+"/"); ok && home != "" {
		tilde, path = "~/", below
	}
	if strings.ContainsFunc(path, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r)
	}) {
		path = proxyenv.Quote(path)
	}
	return tilde + path
}

// printAddresses prints a line for each address that is listened on.
func printAddresses(out io.Writer, addresses map[string]string) {
	for _, spec := range embedded.ListenerSpecs() {
		if address, ok := addresses[spec.Name]; ok {
			fmt.Fprintf(out, "%-12s %s\n", spec.Name, address)
		}
	}
}

// dryRun prints the plan of the directories. The error says that something
// would fail.
func (u *up) dryRun(ctx context.Context) error {
	lastLine := embedded.CaptureLibraryLogs(u.log)
	u.config.OnReady, u.config.OnSlow = nil, nil
	plan, err := embedded.DryRun(ctx, u.config, func(scratch *embedded.Cluster) { scratch.TakeProcess(lastLine) })
	if err != nil {
		return err
	}
	if u.json {
		if err := diagnostics.WriteJSON(u.stdout, plan); err != nil {
			return err
		}
	} else {
		fmt.Fprint(u.stdout, plan.String())
	}
	if n := len(plan.Failed) + len(plan.Waiting); n > 0 {
		return fmt.Errorf("dry run: %s would not be applied", diagnostics.Count(n, "object"))
	}
	return nil
}
