package dataplane

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	inboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// port follows the policy of one port of the application.
type port struct {
	number  uint16
	config  *Config
	control *control
	connect *connector

	policy published[*policy]
	// answered has a value once the control plane was heard, or did not answer.
	answered published[struct{}]

	mu   sync.Mutex
	apps map[netip.AddrPort]*peer
}

// policy is a version of a port's policy. Only its limits change.
type policy struct {
	*verdict.Server
	limit *rateLimit
}

// firstAnswer is how long a connection waits for the policy of a port that was
// not asked for before.
const firstAnswer = 3 * time.Second

// start follows the policy until ctx ends. Until the first answer the default
// is in force.
func (p *port) start(ctx context.Context, group *lifecycle.Group, otherwise *inboundpb.Server) {
	p.policy.set(&policy{Server: verdict.NewServer(otherwise)})
	context.AfterFunc(ctx, p.close)
	spec := &inboundpb.PortSpec{Workload: p.config.Workload.PolicyWorkload, Port: uint32(p.number)}
	client := inboundpb.NewInboundServerPoliciesClient(p.control.policy)
	name := fmt.Sprintf("policy of port %d", p.number)
	var last *inboundpb.HttpLocalRateLimit
	var limit *rateLimit
	group.Go(name, func() error {
		stream[inboundpb.Server]{
			name: name, log: p.config.Log,
			open: func(ctx context.Context) (grpc.ServerStreamingClient[inboundpb.Server], error) {
				return client.WatchPort(ctx, spec)
			},
			each: func(s *inboundpb.Server, _ bool) {
				server := verdict.NewServer(s)
				if !proto.Equal(last, server.RateLimit) {
					// What was used up stays so while the limits are the same.
					last, limit = server.RateLimit, newRateLimit(server.RateLimit)
				}
				p.policy.set(&policy{server, limit})
				p.answered.set(struct{}{})
			},
			refused: func(code codes.Code) bool {
				p.answered.set(struct{}{})
				return terminal(code)
			},
		}.follow(ctx)
		return nil
	})
}

// now is the policy in force.
func (p *port) now() *policy {
	v, _, _ := p.policy.get()
	return v
}

// first is the policy in force once the control plane was asked for it.
func (p *port) first(ctx context.Context) *policy {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	_, _ = p.answered.wait(ctx) // without an answer there is the default
	return p.now()
}

// app is the application at an address of the pod.
func (p *port) app(addr netip.AddrPort) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	app := p.apps[addr]
	if app == nil {
		app = p.connect.peer(&destination.WeightedAddr{Addr: netpb.NewTcpAddress(addr)})
		p.apps[addr] = app
	}
	return app
}

// close gives up idle connections to the application.
func (p *port) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, app := range p.apps {
		app.retire()
	}
}

func newPort(number uint16, config *Config, c *control, connect *connector) *port {
	return &port{number: number, config: config, control: c, connect: connect, apps: map[netip.AddrPort]*peer{}}
}
