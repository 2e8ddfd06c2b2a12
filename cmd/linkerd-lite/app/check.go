package app

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
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
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), max(wait, time.Millisecond))
			defer cancel()
			report, failure := diagnostics.NewCheckReport(diagnostics.WaitReady(ctx, dataDir))
			return errors.Join(write(cmd.OutOrStdout(), report), failure)
		},
	}
	addDataDirFlag(cmd.Flags(), &dataDir)
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for an instance that is ready")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, short (only what is wrong) or json")
	return cmd
}
