// Command mtls-client does what a proxy does to reach the control plane: it
// gets a certificate, and asks destination and policy by mutual TLS.
package main

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	pbnet "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// timeout is for everything: a control plane that says nothing is broken.
const timeout = 10 * time.Second

func main() {
	var c client
	flag.BoolVar(&c.anonymous, "anonymous", false, "show no certificate")
	flag.StringVar(&c.direct, "direct", "", "address of the control plane's inbound proxy port: dial it, with a transport header, instead of the services' own")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: mtls-client [flags] NAME:PORT, in the environment that linkerd-lite proxy-env prints")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := c.run(ctx, flag.Arg(0), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mtls-client:", err)
		os.Exit(1)
	}
}

type client struct {
	anonymous bool
	direct    string
	workload  *meshclient.Workload
	identity  *meshclient.Identity
}

// run certifies, asks both APIs about authority, and prints what they say.
func (c *client) run(ctx context.Context, authority string, out io.Writer) error {
	var err error
	if c.workload, err = meshclient.FromEnvironment(os.Getenv); err != nil {
		return err
	}
	if !c.anonymous {
		if c.identity, err = c.workload.Certify(ctx); err != nil {
			return err
		}
		leaf, err := x509.ParseCertificate(c.identity.Certificate.Certificate[0])
		if err != nil {
			return fmt.Errorf("parse the certificate: %w", err)
		}
		fmt.Fprintf(out, "certificate of %s\n  issued by %s, for %v\n", leaf.DNSNames[0], leaf.Issuer.CommonName,
			time.Until(c.identity.ValidUntil).Round(time.Hour))
	}
	if err := c.endpoints(ctx, authority, out); err != nil {
		return err
	}
	return c.policies(ctx, authority, out)
}

// The control plane's own ports, which a transport header names. Its services
// may listen elsewhere.
const (
	destinationPort = 8086
	policyPort      = 8090
)

// dial makes a client of one of the control plane's services.
func (c *client) dial(service meshclient.Target, port uint16) (*grpc.ClientConn, error) {
	service.Identity = c.identity
	if c.direct != "" {
		service.Addr, service.DirectPort = c.direct, port
	}
	return service.Dial()
}

// endpoints prints the first message of a stream of endpoints.
func (c *client) endpoints(ctx context.Context, authority string, out io.Writer) error {
	cc, err := c.dial(c.workload.Destination, destinationPort)
	if err != nil {
		return err
	}
	defer cc.Close()
	stream, err := destination.NewDestinationClient(cc).Get(ctx, &destination.GetDestination{
		Scheme: "http:", Path: authority, ContextToken: c.workload.DestinationContext,
	})
	if err != nil {
		return fmt.Errorf("ask destination: %w", err)
	}
	update, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("ask destination: %w", err)
	}
	fmt.Fprintf(out, "destination of %s\n", authority)
	for _, endpoint := range update.GetAdd().GetAddrs() {
		identity := "no identity"
		if tls := endpoint.GetTlsIdentity(); tls != nil {
			identity = tls.GetDnsLikeIdentity().GetName()
		}
		fmt.Fprintf(out, "  %s, %s\n", address(endpoint.GetAddr()), identity)
	}
	return nil
}

// policies prints the first messages of the streams of outbound policy for
// authority and of inbound policy for the workload's own port.
func (c *client) policies(ctx context.Context, authority string, out io.Writer) error {
	cc, err := c.dial(c.workload.Policy, policyPort)
	if err != nil {
		return err
	}
	defer cc.Close()
	watch, err := outbound.NewOutboundPoliciesClient(cc).Watch(ctx, &outbound.TrafficSpec{
		SourceWorkload: c.workload.PolicyWorkload, Target: &outbound.TrafficSpec_Authority{Authority: authority},
	})
	if err != nil {
		return fmt.Errorf("ask for outbound policy: %w", err)
	}
	policy, err := watch.Recv()
	if err != nil {
		return fmt.Errorf("ask for outbound policy: %w", err)
	}
	parent := policy.GetMetadata().GetResource()
	fmt.Fprintf(out, "outbound policy of %s %s.%s, port %d\n", parent.GetKind(), parent.GetName(), parent.GetNamespace(), parent.GetPort())

	const own = 8080
	ports, err := inbound.NewInboundServerPoliciesClient(cc).WatchPort(ctx, &inbound.PortSpec{Workload: c.workload.PolicyWorkload, Port: own})
	if err != nil {
		return fmt.Errorf("ask for inbound policy: %w", err)
	}
	server, err := ports.Recv()
	if err != nil {
		return fmt.Errorf("ask for inbound policy: %w", err)
	}
	fmt.Fprintf(out, "inbound policy of port %d: %s %s\n", own, server.GetLabels()["kind"], server.GetLabels()["name"])
	return nil
}

// address is that of an IPv4 endpoint.
func address(a *pbnet.TcpAddress) netip.AddrPort {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], a.GetIp().GetIpv4())
	return netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(a.GetPort()))
}
