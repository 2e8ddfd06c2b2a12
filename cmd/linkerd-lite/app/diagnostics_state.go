package app

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
)

func newDiagnosticsStateCommand(client *apiClient) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "state [TABLE]",
		Short: "Print what the control plane holds: its tables, what is in one of them, or the views that streams share",
		Example: `  linkerd-lite diagnostics state
  linkerd-lite diagnostics state server -o json
  linkerd-lite diagnostics state views`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := diagnostics.StateWriter(output)
			if err != nil {
				return usage(err)
			}
			if client.address != "" {
				return usage(errors.New("--api-addr is for APIs of proxies: the state is asked of a running instance"))
			}
			described, err := diagnostics.AskState(cmd.Context(), client.dataDir, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), described)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json with the objects themselves (values of Secrets are masked)")
	return cmd
}
