package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// newDiagnosticsPolicyCommand is `diagnostics policy`. The forms for Pods and
// Services, and the output as yaml and json, are those of Linkerd's command;
// addresses and the table are its own.
func newDiagnosticsPolicyCommand(dial connector) *cobra.Command {
	var namespace, output, token string
	cmd := &cobra.Command{
		Use:   "policy RESOURCE PORT",
		Short: "Print the policy that a proxy gets for a port of pod/NAME, svc/NAME or ip/ADDRESS",
		Long: `Print the policy that a proxy gets: the inbound policy of a port of pod/NAME, or
the outbound policy for a port of svc/NAME or for ip/ADDRESS, as a client sees it
whose namespace is that of --token.`,
		Example: `  linkerd-lite diagnostics policy -n emojivoto svc/web-svc 80
  linkerd-lite diagnostics policy -n emojivoto pod/web-0 8080 -o table
  linkerd-lite diagnostics policy ip/1.1.1.1 443 --token emojivoto:web-0`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := diagnostics.PolicyWriter(output)
			if err != nil {
				return usage(err)
			}
			ask, err := diagnostics.PolicyQuestion(namespace, args[0], args[1], token, func(odd string) {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", printable.Text(odd))
			})
			if err != nil {
				return usage(err)
			}
			conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			answer, err := ask(cmd.Context(), conn)
			if err != nil {
				return diagnostics.PolicyError(err)
			}
			return write(cmd.OutOrStdout(), answer)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the resource")
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "yaml, json or table")
	cmd.Flags().StringVar(&token, "token", "default:diagnostics", "client of a Service or an address, as NAMESPACE:POD")
	return cmd
}
