package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
)

// inbound takes a peer's connection: mutual TLS, then a header that names the
// application's port. The policy of that port decides.
func (p *proxy) inbound(ctx context.Context, raw net.Conn) error {
	ready, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn := tls.Server(raw, &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{p.identity.Certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    p.workload.Destination.Anchors,
		NextProtos:   []string{proxyshim.ALPN},
	})
	if err := conn.HandshakeContext(ready); err != nil {
		return err
	}
	header, err := proxyshim.ReadHeader(conn)
	if err != nil {
		return err
	}
	client := conn.ConnectionState().PeerCertificates[0].DNSNames[0]
	policy, err := p.ports.policy(ctx, ready, p, header.Port)
	if err != nil {
		return err
	}
	if !permits(policy, client) {
		return fmt.Errorf("%s may not connect to port %d: %s", client, header.Port, policy.GetLabels()["name"])
	}
	host, _, err := net.SplitHostPort(raw.LocalAddr().String())
	if err != nil {
		return err
	}
	app, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(header.Port)))
	if err != nil {
		return err
	}
	defer app.Close()
	p.log.Info("inbound", "client", client, "port", header.Port, "server", policy.GetLabels()["name"])
	join(conn, app)
	return nil
}

// permits says whether one of a policy's authorizations is for a client. Their
// networks are left aside: here clients come from the address that they dial.
func permits(policy *pb.Server, client string) bool {
	return slices.ContainsFunc(policy.GetAuthorizations(), func(a *pb.Authz) bool {
		if a.GetAuthentication().GetUnauthenticated() != nil {
			return true
		}
		identities := a.GetAuthentication().GetMeshTLS().GetIdentities()
		return a.GetAuthentication().GetMeshTLS().GetUnauthenticated() != nil ||
			slices.ContainsFunc(identities.GetIdentities(), func(i *pb.Identity) bool { return i.GetName() == client }) ||
			slices.ContainsFunc(identities.GetSuffixes(), func(s *pb.IdentitySuffix) bool {
				return len(s.GetParts()) == 0 || strings.HasSuffix(client, "."+strings.Join(s.GetParts(), "."))
			})
	})
}

// ports has the newest policy of each port that a client has asked for.
type ports struct {
	mu     sync.Mutex
	byPort map[uint16]*watched
}

// watched is what a stream of policies said last.
type watched struct {
	mu     sync.Mutex
	server *pb.Server
	err    error
	first  chan struct{} // closed with the first message or the error
}

// policy is the policy of a port now. The first question opens a stream, which
// stays open until ctx ends.
func (s *ports) policy(ctx, ready context.Context, p *proxy, port uint16) (*pb.Server, error) {
	s.mu.Lock()
	if s.byPort == nil {
		s.byPort = map[uint16]*watched{}
	}
	w, ok := s.byPort[port]
	if !ok {
		w = &watched{first: make(chan struct{})}
		s.byPort[port] = w
		go w.follow(ctx, p, port)
	}
	s.mu.Unlock()
	select {
	case <-w.first:
	case <-ready.Done():
		return nil, fmt.Errorf("no policy of port %d: %w", port, ready.Err())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server, w.err
}

func (w *watched) follow(ctx context.Context, p *proxy, port uint16) {
	stream, err := pb.NewInboundServerPoliciesClient(p.policy).WatchPort(ctx, &pb.PortSpec{Workload: p.workload.PolicyWorkload, Port: uint32(port)})
	for first := true; ; first = false {
		var server *pb.Server
		if err == nil {
			server, err = stream.Recv()
		}
		w.mu.Lock()
		w.server, w.err = server, err
		w.mu.Unlock()
		if first {
			close(w.first)
		}
		if err != nil {
			return
		}
	}
}
