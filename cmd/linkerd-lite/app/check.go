package app

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

func newCheckCommand() *cobra.Command {
	var (
		dataDir, output string
		wait            time.Duration
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the running instance is ready, part by part",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := diagnostics.CheckWriter(output)
			if err != nil {
				return usage(err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), max(wait, time.Millisecond))
			defer cancel()
			// Whoever says how long to wait has started an instance, or is about to.
			report, failure := diagnostics.NewCheckReport(diagnostics.WaitReady(ctx, dataDir, cmd.Flags().Changed("wait")))
			err = write(cmd.OutOrStdout(), report)
			if errors.Is(failure, datadir.ErrNotRunning) {
				// That is all that the report says.
				failure = &exitError{code: exitFailure}
			}
			return errors.Join(err, failure)
		},
	}
	addDataDirFlag(cmd.Flags(), &dataDir)
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for an instance to become ready; if given, also for one that does not run yet")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, short (only what is wrong) or json")
	return cmd
}
