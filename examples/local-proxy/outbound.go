package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// outbound takes an application's connection, asks the kernel where it wanted to
// go and the control plane what is there, and connects to an endpoint.
func (p *proxy) outbound(ctx context.Context, conn net.Conn) error {
	ready, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	wanted, err := originalDestination(conn.(*net.TCPConn))
	if err != nil {
		return fmt.Errorf("ask for the original destination: %w", err)
	}
	endpoint, err := p.endpoint(ready, wanted)
	if err != nil {
		return err
	}
	peer, err := p.connect(ready, endpoint)
	if err != nil {
		return err
	}
	defer peer.Close()
	p.log.Info("outbound", "to", wanted, "endpoint", address(endpoint), "identity", endpoint.GetTlsIdentity().GetDnsLikeIdentity().GetName())
	join(conn, peer)
	return nil
}

// endpoint is one of those behind an address: the address's own if its profile
// says so, else one of its Service's.
func (p *proxy) endpoint(ctx context.Context, wanted netip.AddrPort) (*pb.WeightedAddr, error) {
	client := pb.NewDestinationClient(p.destination)
	profiles, err := client.GetProfile(ctx, &pb.GetDestination{Path: wanted.String(), ContextToken: p.workload.DestinationContext})
	if err != nil {
		return nil, fmt.Errorf("profile of %s: %w", wanted, err)
	}
	profile, err := profiles.Recv()
	if err != nil {
		return nil, fmt.Errorf("profile of %s: %w", wanted, err)
	}
	if profile.GetEndpoint() != nil {
		return profile.GetEndpoint(), nil
	}
	path := fmt.Sprintf("%s:%d", profile.GetFullyQualifiedName(), wanted.Port())
	updates, err := client.Get(ctx, &pb.GetDestination{Path: path, ContextToken: p.workload.DestinationContext})
	if err != nil {
		return nil, fmt.Errorf("endpoints of %s: %w", path, err)
	}
	update, err := updates.Recv()
	if err != nil {
		return nil, fmt.Errorf("endpoints of %s: %w", path, err)
	}
	endpoints := update.GetAdd().GetAddrs()
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("%s has no endpoints", path)
	}
	return endpoints[rand.IntN(len(endpoints))], nil
}

// connect goes to the endpoint's proxy if it has one, else to the endpoint.
func (p *proxy) connect(ctx context.Context, endpoint *pb.WeightedAddr) (net.Conn, error) {
	to := address(endpoint)
	name := endpoint.GetTlsIdentity().GetDnsLikeIdentity().GetName()
	target := meshclient.Target{ServerName: name, Anchors: p.workload.Destination.Anchors, Identity: p.identity}
	if inbound := endpoint.GetProtocolHint().GetOpaqueTransport().GetInboundPort(); name != "" && inbound != 0 {
		target.DirectPort, target.Protocol = to.Port(), new(proxyshim.Opaque)
		to = netip.AddrPortFrom(to.Addr(), uint16(inbound))
	}
	target.Addr = to.String()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", target.Addr)
	if err != nil || name == "" {
		return conn, err
	}
	secure, err := target.Handshake(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

func address(endpoint *pb.WeightedAddr) netip.AddrPort {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], endpoint.GetAddr().GetIp().GetIpv4())
	return netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(endpoint.GetAddr().GetPort()))
}
