package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

func newDiagnosticsProfileCommand(dial connector) *cobra.Command {
	var output, token string
	cmd := &cobra.Command{
		Use:   "profile ADDRESS",
		Short: "Print the profile that a proxy gets for an address such as 10.96.0.10:80 or web.ns.svc.cluster.local:80",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "json" {
				return usage(fmt.Errorf("output format %q: a profile is always json", output))
			}
			conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			profile, err := diagnostics.Profile(cmd.Context(), destination.NewDestinationClient(conn), args[0], token)
			if err != nil {
				return err
			}
			return diagnostics.WriteJSON(cmd.OutOrStdout(), profile)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "json", "json")
	cmd.Flags().StringVar(&token, "token", "", `context token, such as {"ns":"emojivoto"}`)
	return cmd
}
