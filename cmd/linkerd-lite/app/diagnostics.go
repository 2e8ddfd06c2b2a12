package app

import (
	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// newDiagnosticsCommand is `diagnostics`, which asks a running instance.
func newDiagnosticsCommand() *cobra.Command {
	client := &apiClient{}
	cmd := &cobra.Command{
		Use:     "diagnostics",
		Aliases: []string{"dg"},
		Short:   "Ask the control plane what it tells proxies",
	}
	client.addFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().String("destination-pod", "", "without effect: there is only one")
	cmd.AddCommand(
		newDiagnosticsEndpointsCommand(client.to("destination")),
		newDiagnosticsProfileCommand(client.to("destination")),
		newDiagnosticsPolicyCommand(client.to("policy")),
		newDiagnosticsStateCommand(client),
	)
	return cmd
}

func newDiagnosticsEndpointsCommand(dial connector) *cobra.Command {
	var (
		output, token string
		watch         bool
	)
	cmd := &cobra.Command{
		Use:     "endpoints AUTHORITY...",
		Aliases: []string{"ep"},
		Short:   "Print the endpoints that a proxy gets for authorities such as web.ns.svc.cluster.local:80",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := diagnostics.EndpointWriter(output)
			if err != nil {
				return usage(err)
			}
			writeUpdate, err := diagnostics.UpdateWriter(output)
			if err != nil {
				return usage(err)
			}
			conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			client := destination.NewDestinationClient(conn)
			if watch {
				return diagnostics.WatchEndpoints(cmd.Context(), client, args, token, cmd.OutOrStdout(), writeUpdate)
			}
			endpoints, err := diagnostics.CollectEndpoints(cmd.Context(), client, args, token)
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), cmd.ErrOrStderr(), endpoints)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, wide (adds the TLS identity) or json")
	cmd.Flags().StringVar(&token, "token", "", `context token, such as {"ns":"emojivoto","nodeName":"lite"}`)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print every message of the stream as it comes, until Ctrl-C; with -o json, one message per line")
	return cmd
}
