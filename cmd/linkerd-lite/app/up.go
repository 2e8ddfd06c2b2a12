package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

func newUpCommand() *cobra.Command {
	var (
		options clusterOptions
		logging logOptions
		output  string
		dryRun  bool
	)
	cmd := &cobra.Command{
		Version: programVersion(),
		Use:     "up [DIR...] [flags] [-- COMMAND [ARG...]]",
		Short:   "Run a cluster with the manifests of these directories, until Ctrl-C or until COMMAND ends",
		Long: `Run a cluster in this process, apply the manifests in each DIR and follow their changes.

With -- COMMAND, COMMAND is started once everything has settled, with KUBECONFIG and
LINKERD_LITE_{DESTINATION,POLICY,IDENTITY,ADMIN,SHIM_INBOUND}_ADDR in its environment; when it ends,
the cluster stops, and the exit code is COMMAND's.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dirs, command := args, []string(nil)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				dirs, command = args[:dash], args[dash:]
				if len(command) == 0 {
					return &exitError{code: exitUsage, err: errors.New("no COMMAND after --")}
				}
				if err := checkCommand(command[0]); err != nil {
					return err
				}
			}
			if output != "text" && output != "json" {
				return &exitError{code: exitUsage, err: fmt.Errorf("--output=%s: must be text or json", output)}
			}
			options.dirs, options.settle = dirs, len(command) > 0
			if err := options.complete(); err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			if err := manifests.CheckDirs(dirs); err != nil {
				return err
			}
			log, err := logging.logger(cmd.ErrOrStderr())
			if err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			options.core.linkerd.warn(cmd.Flags(), log)
			up := &up{
				options: &options,
				log:     log,
				command: command,
				json:    output == "json",
				stdin:   cmd.InOrStdin(),
				stdout:  cmd.OutOrStdout(),
				stderr:  cmd.ErrOrStderr(),
			}
			if dryRun {
				return up.dryRun(cmd.Context())
			}
			return up.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	options.addFlags(flags)
	logging.addFlags(flags)
	flags.BoolVar(&dryRun, "dry-run", false, "try the manifests with all webhooks against the running or a temporary instance, print the plan, and exit 1 if anything would fail")
	flags.StringVarP(&output, "output", "o", "text", "text, or json for one object on standard output once ready")
	return cmd
}

// up is one run of the command.
type up struct {
	options        *clusterOptions
	log            *slog.Logger
	command        []string
	json           bool
	stdin          io.Reader
	stdout, stderr io.Writer

	began    time.Time
	signals  chan os.Signal
	instance *instance
	// ended gets what the instance's run returned.
	ended chan error
	stop  context.CancelFunc
}

func (u *up) run(ctx context.Context) error {
	u.began = time.Now()
	hurryMemory()
	u.signals = make(chan os.Signal, 8)
	signal.Notify(u.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(u.signals)
	ctx, u.stop = context.WithCancel(ctx)
	defer u.stop()

	lastLine := captureLibraryLogs(u.log)
	instance, err := newInstance(ctx, u.options, u.log, u.stderr, u.partReady)
	if err != nil {
		return err
	}
	u.instance = instance
	nameLibraryDeaths(instance.supervisor, lastLine, u.stderr)
	for _, notice := range instance.notices {
		u.printf("%s\n", notice)
	}
	u.ended = make(chan error, 1)
	go func() { u.ended <- instance.run(ctx) }()
	result := u.drive(ctx)
	if err := instance.close(); err != nil {
		u.log.Warn("cleaning up", "error", err)
	}
	return result
}

// drive waits for readiness, runs COMMAND if there is one, and returns when
// the instance has ended.
func (u *up) drive(ctx context.Context) error {
	select {
	case <-u.instance.supervisor.Ready():
	case err := <-u.ended:
		return err
	case sig := <-u.signals:
		if err := u.stopped(); err != nil {
			return err
		}
		return &exitError{code: exitSignal + number(sig)}
	}
	if err := u.announce(); err != nil {
		return errors.Join(err, u.stopped())
	}
	if len(u.command) > 0 {
		return u.runCommand(ctx)
	}
	idle := time.NewTimer(settleMemory)
	defer idle.Stop()
	for {
		select {
		case <-idle.C:
			trimMemory()
		case err := <-u.ended:
			return err
		case <-u.signals:
			return u.stopped()
		}
	}
}

// stopped stops the instance; a signal in the meantime ends the process.
func (u *up) stopped() error {
	u.stop()
	select {
	case err := <-u.ended:
		return err
	case sig := <-u.signals:
		exitNow(exitSignal + number(sig))
		return nil
	}
}

func number(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return int(s)
	}
	return 0
}

func (u *up) printf(format string, args ...any) { fmt.Fprintf(u.stderr, format, args...) }

// partReady prints a line per part.
func (u *up) partReady(status lifecycle.Status) {
	u.printf("  %-12s %5.2f s, at %5.2f s\n", status.Name, status.Start.Seconds(), status.Ready.Seconds())
}

// announce prints the addresses and writes the final run.json.
func (u *up) announce() error {
	info := &u.instance.info
	info.Ready = true
	info.ReadySeconds = time.Since(u.began).Seconds()
	for _, status := range u.instance.supervisor.Status() {
		info.Parts = append(info.Parts, PartTime{status.Name, status.Start.Seconds(), status.Ready.Seconds()})
	}
	if err := info.write(u.instance.dir); err != nil {
		return err
	}
	for _, spec := range listenerSpecs {
		if address, ok := info.Addresses[spec.name]; ok {
			u.printf("%-12s %s\n", spec.name, address)
		}
	}
	u.printf("%-12s %s\n", "kubeconfig", info.Kubeconfig)
	if u.json {
		if err := writeJSON(u.stdout, info); err != nil {
			return fmt.Errorf("writing the description: %w", err)
		}
	}
	u.printf("ready in %.2f s\n", info.ReadySeconds)
	trimMemory()
	return nil
}

// nameLibraryDeaths turns the ways in which Kubernetes' code ends a process
// into named failures. These hooks are process-wide: only a command sets them.
func nameLibraryDeaths(supervisor *lifecycle.Supervisor, lastLine func() string, stderr io.Writer) {
	klog.OsExit = func(int) {
		supervisor.Fail("kubernetes", errors.New(strings.TrimSpace(lastLine())))
		// Its caller counts on not getting on.
		runtime.Goexit()
	}
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, value any) {
		if value == http.ErrAbortHandler {
			return // how a handler ends whose client has gone
		}
		fmt.Fprintf(stderr, "linkerd-lite: kubernetes: panic: %v\n", value)
	})
}
