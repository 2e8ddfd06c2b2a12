package app

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

func newListCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the instances that run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "table", "json"); err != nil {
				return usage(err)
			}
			running := datadir.List()
			if output == "json" {
				return diagnostics.WriteJSON(cmd.OutOrStdout(), running)
			}
			if len(running) == 0 {
				_, err := fmt.Fprintln(cmd.ErrOrStderr(), "Nothing is running.")
				return err
			}
			return diagnostics.WriteInstances(cmd.OutOrStdout(), running, time.Now())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json for the run.json of each")
	return cmd
}

func newStopCommand() *cobra.Command {
	var (
		dataDir string
		all     bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the running instance, and wait until it is gone",
		Example: `  linkerd-lite stop
  linkerd-lite stop --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && dataDir != "" {
				return usage(errors.New("--all and --data-dir exclude each other"))
			}
			running := datadir.List()
			if !all {
				info, err := datadir.Find(dataDir)
				if err != nil {
					return err
				}
				running = []*datadir.RunInfo{info}
			}
			var errs []error
			for _, info := range running {
				err := stopInstance(info, timeout)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "stopped process %d in %s\n", info.PID, info.DataDir)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	addDataDirFlag(cmd.Flags(), &dataDir)
	cmd.Flags().BoolVar(&all, "all", false, "stop all instances of this user")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait for the end")
	return cmd
}

// stopInstance asks an instance to end, as Ctrl-C does, and waits until its data
// directory is free.
func stopInstance(info *datadir.RunInfo, timeout time.Duration) error {
	process, err := os.FindProcess(info.PID)
	if err == nil {
		err = process.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping process %d in %s: %w", info.PID, info.DataDir, err)
	}
	deadline := time.After(timeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for datadir.Running(info.DataDir) {
		select {
		case <-deadline:
			return fmt.Errorf("process %d in %s still runs after %v; its COMMAND may not have ended (kill -9 %d ends both)", info.PID, info.DataDir, timeout, info.PID)
		case <-tick.C:
		}
	}
	return nil
}
