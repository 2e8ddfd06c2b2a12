package dataplane

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// balancer spreads requests over the endpoints of a backend: of two that it
// draws it takes the one with the smaller load, which is the peak of its
// latencies, decaying, times the number of its requests under way. Weights of
// endpoints are ignored, as by linkerd2-proxy.
type balancer struct {
	load    verdict.Load
	accrual *outboundpb.FailureAccrual
	connect *connector
	// fixed says that there is one endpoint and will be no other.
	fixed bool

	mu        sync.Mutex
	endpoints map[netip.AddrPort]*endpoint
	list      []*endpoint
	// loaded is false until the first message.
	loaded bool
	// failing says that a request has waited in vain: until an endpoint is there
	// the next do not wait.
	failing bool
	changed published[struct{}]
}

// endpoint is one to which a balancer, or a rule itself, sends. All but load,
// pending and breaker is immutable.
type endpoint struct {
	*peer
	owner   *balancer
	load    float64 // in seconds
	updated time.Time
	pending int
	breaker breaker
	// down is until when nobody tries to connect again, after failures in a row.
	down     time.Time
	failures int
}

func newBalancer(load verdict.Load, accrual *outboundpb.FailureAccrual, connect *connector) *balancer {
	return &balancer{load: load, accrual: accrual, connect: connect, endpoints: map[netip.AddrPort]*endpoint{}}
}

// update takes a message; the first of a call replaces all that is known.
func (b *balancer) update(u *destination.Update, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keep := maps.Clone(b.endpoints)
	switch kind := u.GetUpdate().(type) {
	case *destination.Update_Add:
		if first {
			clear(keep)
		}
		for _, w := range kind.Add.GetAddrs() {
			info := proto.CloneOf(w)
			if info.MetricLabels == nil {
				info.MetricLabels = map[string]string{}
			}
			maps.Copy(info.MetricLabels, kind.Add.GetMetricLabels())
			addr := info.GetAddr().AddrPort()
			if !addr.Addr().IsValid() {
				continue
			}
			if known := b.endpoints[addr]; known != nil && proto.Equal(known.info, info) {
				keep[addr] = known
				continue
			}
			keep[addr] = &endpoint{peer: b.connect.peer(info), owner: b, load: b.load.DefaultRTT.Seconds(), updated: time.Now(), breaker: newBreaker(b.accrual)}
		}
	case *destination.Update_Remove:
		for _, a := range kind.Remove.GetAddrs() {
			delete(keep, a.AddrPort())
		}
	case *destination.Update_NoEndpoints:
		clear(keep)
	}
	for addr, e := range b.endpoints {
		if keep[addr] != e {
			e.retire()
		}
	}
	b.loaded = true
	b.endpoints, b.list = keep, slices.Collect(maps.Values(keep))
	b.changed.set(struct{}{})
}

// close gives up the endpoints' connections that are not in use.
func (b *balancer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.list {
		e.retire()
	}
}

// available says whether pick would return an endpoint soon.
func (b *balancer) available() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	return !b.loaded || slices.ContainsFunc(b.list, func(e *endpoint) bool { return e.open(now) })
}

// open says whether an endpoint may be drawn.
func (e *endpoint) open(now time.Time) bool { return !now.Before(e.down) && e.breaker.open(now) }

// pick returns an endpoint, whose done is to be called. It waits for one, but not
// longer than failFast; it is refused at once after others have waited in vain.
func (b *balancer) pick(ctx context.Context, failFast time.Duration) (*endpoint, error) {
	timeout := time.NewTimer(failFast)
	defer timeout.Stop()
	for {
		_, _, next := b.changed.get()
		e, wait, err := b.try(time.Now())
		if e != nil || err != nil {
			return e, err
		}
		opens := time.NewTimer(wait)
		select {
		case <-next:
		case <-opens.C:
		case <-timeout.C:
			opens.Stop()
			b.mu.Lock()
			b.failing = true
			b.mu.Unlock()
			return nil, errFailFast
		case <-ctx.Done():
			opens.Stop()
			return nil, context.Cause(ctx)
		}
		opens.Stop()
	}
}

// try draws an endpoint. Without one it says how long until a breaker opens.
func (b *balancer) try(now time.Time) (*endpoint, time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var open []*endpoint
	wait := time.Hour
	for _, e := range b.list {
		if e.open(now) {
			open = append(open, e)
			continue
		}
		for _, until := range []time.Duration{e.breaker.shutUntil.Sub(now), e.down.Sub(now)} {
			if until > 0 {
				wait = min(wait, until)
			}
		}
	}
	if len(open) == 0 {
		if b.failing {
			return nil, 0, errUnavailable
		}
		return nil, wait, nil
	}
	b.failing = false
	e := b.choose(open, now, rand.IntN)
	e.pending++
	e.breaker.begin()
	return e, 0, nil
}

// choose takes the better of two drawn by chance.
func (b *balancer) choose(open []*endpoint, now time.Time, draw func(int) int) *endpoint {
	first := draw(len(open))
	if len(open) == 1 {
		return open[first]
	}
	second := draw(len(open) - 1)
	if second >= first {
		second++
	}
	if b.cost(open[second], now) < b.cost(open[first], now) {
		return open[second]
	}
	return open[first]
}

// cost is the load of an endpoint that gets one more request.
func (b *balancer) cost(e *endpoint, now time.Time) float64 {
	return b.decayed(e, now, 0) * float64(e.pending+1)
}

// decayed is an endpoint's load after a latency was seen: peaks count at once,
// and are forgotten by and by.
func (b *balancer) decayed(e *endpoint, now time.Time, latency float64) float64 {
	if latency > e.load {
		return latency
	}
	weight := 0.0
	if decay := b.load.Decay.Seconds(); decay > 0 {
		weight = math.Exp(-now.Sub(e.updated).Seconds() / decay)
	}
	return e.load*weight + latency*(1-weight)
}

// unreachable is called in the place of done when no connection could be made:
// the endpoint is not drawn for some time.
func (e *endpoint) unreachable() {
	b := e.owner
	b.mu.Lock()
	defer b.mu.Unlock()
	e.pending--
	e.breaker.abandon()
	e.failures++
	e.down = time.Now().Add(connectBackoff.Wait(e.failures, rand.Float64()))
}

// connectBackoff is that between attempts to connect to an endpoint.
var connectBackoff = verdict.Backoff{Min: 100 * time.Millisecond, Max: time.Minute, Jitter: 0.1}

// done is called once when a request has ended. Without an outcome, as when the
// client has gone, it only ceases to be pending.
func (e *endpoint) done(latency time.Duration, outcome *verdict.Outcome) {
	b := e.owner
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e.pending--
	if outcome == nil {
		e.breaker.abandon()
		b.changed.set(struct{}{})
		return
	}
	e.failures = 0
	now, failed := time.Now(), outcome.Failed()
	if failed {
		latency = max(latency, b.load.Penalty)
	}
	e.load, e.updated = b.decayed(e, now, latency.Seconds()), now
	open := e.breaker.open(now)
	e.breaker.record(now, failed, rand.Float64())
	if !open && e.breaker.open(now) {
		b.changed.set(struct{}{})
	}
}
