package diagnostics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

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

// CollectEndpoints opens a Get stream per authority and returns what their Add
// messages hold, sorted. Removes are not subtracted, as in Linkerd's command.
func CollectEndpoints(ctx context.Context, client destination.DestinationClient, authorities []string, token string) ([]Endpoint, error) {
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
		// A command's own: it reads what an instance answers, and ends with the command.
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
	found := map[endpointKey]Endpoint{}
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
		text := "Destination API error: " + s.Message() // the text of Linkerd's command
		if strings.HasPrefix(s.Message(), "Invalid authority") {
			text += " (an authority is NAME.NAMESPACE.svc.cluster.local:PORT)"
		}
		return errors.New(text)
	}
	return err
}

// Profile is the first profile that a proxy gets for an address.
func Profile(ctx context.Context, client destination.DestinationClient, address, token string) (*destination.DestinationProfile, error) {
	stream, err := client.GetProfile(ctx, &destination.GetDestination{Path: address, ContextToken: token})
	if err != nil {
		return nil, destinationError(err)
	}
	profile, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the stream for %s ended without a profile", address)
	}
	if err != nil {
		return nil, destinationError(err)
	}
	return profile, nil
}
