package app

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

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
				return fmt.Errorf("output format %q: a profile is always json", output)
			}
			conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			stream, err := destination.NewDestinationClient(conn).GetProfile(cmd.Context(), &destination.GetDestination{Path: args[0], ContextToken: token})
			if err != nil {
				return destinationError(err)
			}
			profile, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("the stream for %s ended without a profile", args[0])
			}
			if err != nil {
				return destinationError(err)
			}
			return writeJSON(cmd.OutOrStdout(), profile)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "json", "json")
	cmd.Flags().StringVar(&token, "token", "", `context token, such as {"ns":"emojivoto"}`)
	return cmd
}
