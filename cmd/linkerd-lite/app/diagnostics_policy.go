package app

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
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
			write, err := policyWriter(output)
			if err != nil {
				return err
			}
			ask, err := policyQuestion(namespace, args[0], args[1], token)
			if err != nil {
				return err
			}
			conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			answer, err := ask(cmd, conn)
			if err != nil {
				return policyError(err)
			}
			return write(cmd.OutOrStdout(), answer)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the resource")
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "yaml, json or table")
	cmd.Flags().StringVar(&token, "token", "default:diagnostics", "client of a Service or an address, as NAMESPACE:POD")
	return cmd
}

// policyQuestion returns the call that a resource stands for.
func policyQuestion(namespace, resource, portText, token string) (func(*cobra.Command, grpc.ClientConnInterface) (any, error), error) {
	kind, name, ok := strings.Cut(resource, "/")
	if !ok || name == "" {
		return nil, fmt.Errorf("resource %q: must be TYPE/NAME, such as pod/web-0 or svc/web", resource)
	}
	port, err := strconv.ParseUint(portText, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("port %q: must be a number", portText)
	}
	traffic := &outbound.TrafficSpec{SourceWorkload: token}
	switch strings.ToLower(kind) {
	case "po", "pod", "pods":
		spec := &inbound.PortSpec{Workload: namespace + ":" + name, Port: uint32(port)}
		return func(cmd *cobra.Command, conn grpc.ClientConnInterface) (any, error) {
			return inbound.NewInboundServerPoliciesClient(conn).GetPort(cmd.Context(), spec)
		}, nil
	case "svc", "service", "services":
		traffic.Target = &outbound.TrafficSpec_Authority{Authority: fmt.Sprintf("%s.%s.svc:%d", name, namespace, port)}
	case "ip":
		ip, err := netip.ParseAddr(name)
		if err != nil {
			return nil, fmt.Errorf("resource %q: %w", resource, err)
		}
		traffic.Target = &outbound.TrafficSpec_Addr{Addr: &net.TcpAddress{Ip: net.NewIPAddress(ip), Port: uint32(port)}}
	default:
		return nil, fmt.Errorf("resource %q: the type must be pod, svc or ip", resource)
	}
	return func(cmd *cobra.Command, conn grpc.ClientConnInterface) (any, error) {
		return outbound.NewOutboundPoliciesClient(conn).Get(cmd.Context(), traffic)
	}, nil
}

func policyError(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unavailable {
		return errors.New("Policy API error: " + s.Message()) //nolint:staticcheck // as the other commands have it
	}
	return err
}

// policyWriter returns the writer for an output format.
func policyWriter(format string) (func(out io.Writer, answer any) error, error) {
	switch format {
	case "json":
		return func(out io.Writer, answer any) error { return writeJSON(out, answer) }, nil
	case "yaml", "":
		return writeYAML, nil
	case "table":
		return writePolicyTable, nil
	}
	return nil, fmt.Errorf("output format %q: use yaml, json or table", format)
}

// writeYAML writes what writeJSON does as YAML, with sorted keys.
func writeYAML(out io.Writer, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func writePolicyTable(out io.Writer, answer any) error {
	if server, ok := answer.(*inbound.Server); ok {
		return writeInboundTable(out, server)
	}
	return writeOutboundTable(out, answer.(*outbound.OutboundPolicy))
}
