package dataplane

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// targetKey is what applications connect to: an address, or in ingress mode a
// name with a port.
type targetKey struct {
	addr      netip.AddrPort
	authority string
}

// target follows what the control plane says of one destination, and has the
// balancers that this names.
type target struct {
	key     targetKey
	config  *Config
	control *control
	connect *connector
	group   *lifecycle.Group
	ctx     context.Context

	plan published[*verdict.Plan]

	mu                    sync.Mutex
	sources               verdict.Sources
	hasPolicy, hasProfile bool
	balancers             map[string]*running
	budget                budget
}

// running is a balancer and its end.
type running struct {
	*balancer
	cancel context.CancelFunc
}

// control is the control plane.
type control struct{ destination, policy *grpc.ClientConn }

// start follows both streams until ctx ends.
func (t *target) start(ctx context.Context) {
	t.ctx, t.balancers = ctx, map[string]*running{}
	t.sources.Original = t.key.addr
	name := t.key.addr.String()
	if t.key.authority != "" {
		name = t.key.authority
		_, port, _ := net.SplitHostPort(name)
		n, _ := strconv.ParseUint(port, 10, 16)
		t.sources.Original = netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(n))
	}
	t.group.Go("policy of "+name, func() error {
		t.followPolicy(name)
		return nil
	})
	if t.key.authority == "" && !slices.ContainsFunc(t.config.ProfileNetworks, func(p netip.Prefix) bool { return p.Contains(t.key.addr.Addr()) }) {
		t.learn(func() { t.hasProfile = true })
		return
	}
	t.group.Go("profile of "+name, func() error {
		t.followProfile(name)
		return nil
	})
}

func (t *target) followPolicy(name string) {
	spec := &outboundpb.TrafficSpec{SourceWorkload: t.config.Workload.PolicyWorkload}
	if t.key.authority != "" {
		spec.Target = &outboundpb.TrafficSpec_Authority{Authority: name}
	} else {
		spec.Target = &outboundpb.TrafficSpec_Addr{Addr: netpb.NewTcpAddress(t.key.addr)}
	}
	client := outboundpb.NewOutboundPoliciesClient(t.control.policy)
	stream[outboundpb.OutboundPolicy]{
		name: "policy of " + name, log: t.config.Log,
		open: func(ctx context.Context) (grpc.ServerStreamingClient[outboundpb.OutboundPolicy], error) {
			return client.Watch(ctx, spec)
		},
		each: func(p *outboundpb.OutboundPolicy, _ bool) {
			t.learn(func() { t.sources.Policy, t.hasPolicy = p, true })
		},
		refused: func(code codes.Code) bool {
			switch {
			case code == codes.NotFound, code == codes.Unimplemented:
				t.learn(func() { t.hasPolicy = true })
			case terminal(code):
				t.plan.set(&verdict.Plan{Protocol: verdict.Opaque, Invalid: fmt.Sprintf("the control plane refuses to say what is there: %v", code)})
			default:
				return false
			}
			return true
		},
	}.follow(t.ctx)
}

func (t *target) followProfile(name string) {
	client := destination.NewDestinationClient(t.control.destination)
	stream[destination.DestinationProfile]{
		name: "profile of " + name, log: t.config.Log,
		open: func(ctx context.Context) (grpc.ServerStreamingClient[destination.DestinationProfile], error) {
			return client.GetProfile(ctx, &destination.GetDestination{Path: name, ContextToken: t.config.Workload.DestinationContext})
		},
		each: func(p *destination.DestinationProfile, _ bool) {
			t.learn(func() { t.sources.Profile, t.hasProfile = p, true })
		},
		refused: func(code codes.Code) bool {
			if terminal(code) {
				t.learn(func() { t.hasProfile = true })
			}
			return terminal(code)
		},
	}.follow(t.ctx)
}

// learn changes the sources and, once both have been heard, makes a new plan.
// Balancers that it does not name end.
func (t *target) learn(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	if !t.hasPolicy || !t.hasProfile {
		return
	}
	plan := verdict.NewPlan(t.sources)
	t.budget.set(t.sources.Profile.GetRetryBudget())
	used := map[string]bool{}
	plan.Backends(func(b *verdict.Backend, accrual *outboundpb.FailureAccrual) { used[balancerKey(b, accrual)] = true })
	for key, r := range t.balancers {
		if !used[key] {
			r.cancel()
			delete(t.balancers, key)
		}
	}
	t.plan.set(plan)
}

// balancerKey tells apart balancers that are not the same.
func balancerKey(b *verdict.Backend, accrual *outboundpb.FailureAccrual) string {
	address := b.Path
	if b.Forward != nil {
		address = prototext.MarshalOptions{}.Format(b.Forward)
	}
	return fmt.Sprint(address, b.Load, prototext.MarshalOptions{}.Format(accrual))
}

// balancer is that of a backend, which is followed from the first use on; nil if
// the backend names no endpoints.
func (t *target) balancer(b *verdict.Backend, accrual *outboundpb.FailureAccrual) *balancer {
	if b.Forward == nil && b.Path == "" {
		return nil
	}
	key := balancerKey(b, accrual)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.balancers[key]; r != nil {
		return r.balancer
	}
	ctx, cancel := context.WithCancel(t.ctx)
	r := &running{newBalancer(b.Load, accrual, t.connect), cancel}
	t.balancers[key] = r
	if b.Forward != nil {
		r.fixed = true
		r.update(&destination.Update{Update: &destination.Update_Add{Add: &destination.WeightedAddrSet{Addrs: []*destination.WeightedAddr{b.Forward}}}}, true)
		context.AfterFunc(ctx, r.close)
		return r.balancer
	}
	t.group.Go("endpoints of "+b.Path, func() error {
		defer r.close()
		t.followEndpoints(ctx, b.Path, r.balancer)
		return nil
	})
	return r.balancer
}

func (t *target) followEndpoints(ctx context.Context, path string, b *balancer) {
	client := destination.NewDestinationClient(t.control.destination)
	stream[destination.Update]{
		name: "endpoints of " + path, log: t.config.Log,
		open: func(ctx context.Context) (grpc.ServerStreamingClient[destination.Update], error) {
			return client.Get(ctx, &destination.GetDestination{Path: path, ContextToken: t.config.Workload.DestinationContext})
		},
		each: b.update,
		refused: func(code codes.Code) bool {
			if terminal(code) {
				b.update(&destination.Update{Update: &destination.Update_NoEndpoints{NoEndpoints: &destination.NoEndpoints{}}}, true)
			}
			return terminal(code)
		},
	}.follow(ctx)
}
