package app

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// How long `diagnostics endpoints` listens: Linkerd's command always takes
// collectLimit; this one ends collectQuiet after the last message once every
// authority has answered.
const (
	collectLimit = 5 * time.Second
	collectQuiet = 250 * time.Millisecond
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
			write, err := endpointWriter(output)
			if err != nil {
				return err
			}
			writeUpdate, err := updateWriterFor(output)
			if err != nil {
				return err
			}
			conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			client := destination.NewDestinationClient(conn)
			if watch {
				return watchEndpoints(cmd.Context(), client, args, token, cmd.OutOrStdout(), writeUpdate)
			}
			endpoints, err := collectEndpoints(cmd.Context(), client, args, token)
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

// collectEndpoints opens a Get stream per authority and returns what their Add
// messages hold, sorted. Removes are not subtracted, as in Linkerd's command.
func collectEndpoints(ctx context.Context, client destination.DestinationClient, authorities []string, token string) ([]endpoint, error) {
	// The limit is ours alone: a deadline would go to the server too, which may
	// then end the streams with an error a moment before it is over here.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.After(collectLimit)
	type message struct {
		stream int
		update *destination.Update
		err    error
	}
	messages := make(chan message)
	for i, authority := range authorities {
		stream, err := client.Get(ctx, &destination.GetDestination{Scheme: "http:", Path: authority, ContextToken: token})
		if err != nil {
			return nil, destinationError(err)
		}
		go func() {
			for {
				update, err := stream.Recv()
				select {
				case messages <- message{i, update, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	found := map[endpointKey]endpoint{}
	answered := map[int]bool{}
	var quiet <-chan time.Time
	for {
		select {
		case m := <-messages:
			switch {
			case m.err == nil:
				addEndpoints(found, m.update.GetAdd())
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case !errors.Is(m.err, io.EOF):
				return nil, destinationError(m.err)
			}
			answered[m.stream] = true
			if len(answered) == len(authorities) {
				quiet = time.After(collectQuiet)
			}
		case <-quiet:
			return sortEndpoints(found), nil
		case <-limit:
			return sortEndpoints(found), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func destinationError(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unavailable {
		return errors.New("Destination API error: " + s.Message()) //nolint:staticcheck // the text of Linkerd's command
	}
	return err
}
