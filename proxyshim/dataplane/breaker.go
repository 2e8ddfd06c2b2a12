package dataplane

import (
	"math"
	"time"

	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// breaker takes an endpoint out of use when it fails:
//  1. After a number of failures in a row, or when the share of successes is too
//     low, it is shut for some time.
//  2. Then one request is let through.
//  3. If that succeeds all is as before; if it fails the breaker is shut again,
//     for longer.
//
// The zero value never shuts. Its user locks.
type breaker struct {
	maxFailures int
	backoff     verdict.Backoff
	// threshold is the share of successes below which the breaker shuts, among
	// the requests of about the window; zero is none.
	threshold, window float64
	minRequests       float64

	failures         int
	successes, total float64
	counted          time.Time
	shuts            int
	shutUntil        time.Time
	probing          bool
}

// newBreaker reads a policy; nil is none.
func newBreaker(a *outboundpb.FailureAccrual) breaker {
	switch kind := a.GetKind().(type) {
	case *outboundpb.FailureAccrual_ConsecutiveFailures_:
		return breaker{maxFailures: int(kind.ConsecutiveFailures.GetMaxFailures()), backoff: verdict.NewBackoff(kind.ConsecutiveFailures.GetBackoff())}
	case *outboundpb.FailureAccrual_Unified_:
		return breaker{
			maxFailures: int(kind.Unified.GetMaxConsecutiveFailures()), backoff: verdict.NewBackoff(kind.Unified.GetBackoff()),
			threshold: kind.Unified.GetSuccessRateThreshold(), window: kind.Unified.GetDecay().AsDuration().Seconds(),
			minRequests: float64(kind.Unified.GetMinRequests()),
		}
	}
	return breaker{}
}

// open says whether requests may pass now.
func (b *breaker) open(now time.Time) bool {
	return b.shuts == 0 || !b.probing && !now.Before(b.shutUntil)
}

// begin notes that a request passes.
func (b *breaker) begin() { b.probing = b.shuts > 0 }

// abandon notes that a request has ended without an outcome.
func (b *breaker) abandon() { b.probing = false }

// record notes the outcome of a request; chance is in [0, 1).
func (b *breaker) record(now time.Time, failed bool, chance float64) {
	if b.shuts > 0 && !b.probing {
		return // begun before it was shut
	}
	b.probing = false
	if b.window > 0 {
		weight := math.Exp(-now.Sub(b.counted).Seconds() / b.window)
		b.successes, b.total, b.counted = b.successes*weight, b.total*weight+1, now
	}
	if !failed {
		b.failures, b.shuts = 0, 0
		b.successes++
		return
	}
	b.failures++
	low := b.threshold > 0 && b.total >= b.minRequests && b.successes < b.threshold*b.total
	if b.shuts > 0 || b.failures == b.maxFailures || low {
		b.shuts++
		b.failures, b.successes, b.total = 0, 0, 0
		b.shutUntil = now.Add(b.backoff.Wait(b.shuts, chance))
	}
}
