package diagnostics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// updateWriter prints one message of a Get stream.
type updateWriter func(out io.Writer, authority string, update *destination.Update) error

// UpdateWriter returns the writer for an output format of --watch.
func UpdateWriter(format string) (updateWriter, error) {
	switch format {
	case "table", "":
		return func(out io.Writer, authority string, update *destination.Update) error {
			return writeUpdate(out, authority, update, false)
		}, nil
	case "wide":
		return func(out io.Writer, authority string, update *destination.Update) error {
			return writeUpdate(out, authority, update, true)
		}, nil
	case "json":
		return func(out io.Writer, _ string, update *destination.Update) error {
			data, err := protojson.Marshal(update)
			if err != nil {
				return err
			}
			_, err = out.Write(append(data, '\n'))
			return err
		}, nil
	}
	return nil, fmt.Errorf("output format %q: use table, wide or json", format)
}

// WatchEndpoints prints each message of the Get streams as it comes, until one
// of the streams ends. Messages of one stream keep their order.
func WatchEndpoints(ctx context.Context, client destination.DestinationClient, authorities []string, token string, out io.Writer, write updateWriter) error {
	type message struct {
		authority string
		update    *destination.Update
	}
	messages := make(chan message)
	group, ctx := lifecycle.NewGroup(ctx)
	for _, authority := range authorities {
		stream, err := client.Get(ctx, &destination.GetDestination{Scheme: "http:", Path: authority, ContextToken: token})
		if err != nil {
			return destinationError(err)
		}
		group.Go("stream for "+authority, func() error {
			for {
				update, err := stream.Recv()
				switch {
				case errors.Is(err, io.EOF):
					return fmt.Errorf("the control plane ended the stream for %s", authority)
				case err != nil:
					return destinationError(err)
				}
				select {
				case messages <- message{authority, update}:
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	group.Go("output", func() error {
		for {
			select {
			case m := <-messages:
				if err := write(out, m.authority, m.update); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// writeUpdate prints a line per address of a message: "add" with the pod, and
// the identity if wide; "remove"; or "none" and whether the Service exists.
func writeUpdate(out io.Writer, authority string, update *destination.Update, wide bool) error {
	var b strings.Builder
	switch update := update.GetUpdate().(type) {
	case *destination.Update_Add:
		found := map[endpointKey]Endpoint{}
		addEndpoints(found, update.Add)
		for _, e := range sortEndpoints(found) {
			fmt.Fprintf(&b, "add      %s   %s   %s", authority, addressText(e.IP, e.Port), e.Pod)
			if wide {
				fmt.Fprintf(&b, "   %s", e.identity)
			}
			b.WriteByte('\n')
		}
	case *destination.Update_Remove:
		for _, addr := range update.Remove.GetAddrs() {
			fmt.Fprintf(&b, "remove   %s   %s\n", authority, tcpAddressText(addr))
		}
	case *destination.Update_NoEndpoints:
		state := "the Service does not exist"
		if update.NoEndpoints.GetExists() {
			state = "the Service exists"
		}
		fmt.Fprintf(&b, "none     %s   %s\n", authority, state)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func tcpAddressText(addr *net.TcpAddress) string {
	return addressText(ipText(addr.GetIp()), addr.GetPort())
}

func addressText(ip string, port uint32) string {
	parsed, err := netip.ParseAddr(ip)
	if err != nil {
		return fmt.Sprintf("%s:%d", ip, port)
	}
	return netip.AddrPortFrom(parsed, uint16(port)).String()
}
