package diagnostics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	policyinbound "github.com/linkerd-lite/linkerd-lite/policy/inbound"
)

// PolicyQuestion returns the call that a resource stands for. Odd is told what
// is odd about the answer.
func PolicyQuestion(namespace, resource, portText, token string, odd func(string)) (func(context.Context, grpc.ClientConnInterface) (any, error), error) {
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
		return func(ctx context.Context, conn grpc.ClientConnInterface) (any, error) {
			var header metadata.MD
			answer, err := inbound.NewInboundServerPoliciesClient(conn).GetPort(ctx, spec, grpc.Header(&header))
			for _, names := range header.Get(policyinbound.OverlapHeader) {
				odd(fmt.Sprintf("Server %s selects port %d as well, and has no effect there: Server %s is older or comes first by name",
					names, port, answer.GetLabels()["name"]))
			}
			return answer, err
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
	return func(ctx context.Context, conn grpc.ClientConnInterface) (any, error) {
		return outbound.NewOutboundPoliciesClient(conn).Get(ctx, traffic)
	}, nil
}

// PolicyError is what the policy API says of a failure.
func PolicyError(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unavailable {
		return errors.New("Policy API error: " + s.Message()) //nolint:staticcheck // as the other commands have it
	}
	return err
}

// PolicyWriter returns the writer for an output format.
func PolicyWriter(format string) (func(out io.Writer, answer any) error, error) {
	switch format {
	case "json":
		return func(out io.Writer, answer any) error { return WriteJSON(out, answer) }, nil
	case "yaml", "":
		return WriteYAML, nil
	case "table":
		return writePolicyTable, nil
	}
	return nil, fmt.Errorf("output format %q: use yaml, json or table", format)
}

// WriteYAML writes what WriteJSON does as YAML, with sorted keys.
func WriteYAML(out io.Writer, value any) error {
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
