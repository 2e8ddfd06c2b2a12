package dataplane

import (
	"slices"
	"sync"

	"golang.org/x/time/rate"

	inboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// rateLimit counts the requests of one policy: all of them, then those of the
// client, or of all clients without an identity.
type rateLimit struct {
	policy    *inboundpb.HttpLocalRateLimit
	total     *rate.Limiter
	overrides []*rate.Limiter

	mu         sync.Mutex
	identities map[string]*rate.Limiter
}

// newRateLimit reads a policy; nil is no limit.
func newRateLimit(p *inboundpb.HttpLocalRateLimit) *rateLimit {
	if p == nil {
		return nil
	}
	l := &rateLimit{policy: p, total: limiter(p.GetTotal()), identities: map[string]*rate.Limiter{}}
	for _, o := range p.GetOverrides() {
		l.overrides = append(l.overrides, limiter(o.GetLimit()))
	}
	return l
}

// limiter lets a second's requests pass at once; nil lets all pass.
func limiter(l *inboundpb.HttpLocalRateLimit_Limit) *rate.Limiter {
	if l == nil {
		return nil
	}
	n := l.GetRequestsPerSecond()
	return rate.NewLimiter(rate.Limit(n), int(n))
}

// allow says whether a request of a client passes, and if not which limit is
// exceeded.
func (l *rateLimit) allow(identity string) (ok bool, scope string) {
	if l == nil {
		return true, ""
	}
	if l.total != nil && !l.total.Allow() {
		return false, "total"
	}
	of := l.of(identity)
	return of == nil || of.Allow(), "identity"
}

// of is the limiter of a client: an override that names it, else its own.
func (l *rateLimit) of(identity string) *rate.Limiter {
	for i, o := range l.policy.GetOverrides() {
		if slices.ContainsFunc(o.GetClients().GetIdentities(), func(id *inboundpb.Identity) bool { return id.GetName() == identity }) {
			return l.overrides[i]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.identities[identity]
	if !ok {
		of = limiter(l.policy.GetIdentity())
		l.identities[identity] = of
	}
	return of
}
