package dataplane

import (
	"sync"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// budget bounds the retries of a ServiceProfile: each request adds a share of a
// retry, each second some, and what is not used within the time to live is lost.
type budget struct {
	mu            sync.Mutex
	ratio, perSec float64
	ttl           time.Duration
	tokens        float64
	at            time.Time
	requests      float64
}

// set takes the numbers of a profile.
func (b *budget) set(in *destination.RetryBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ratio, b.perSec, b.ttl = float64(in.GetRetryRatio()), float64(in.GetMinRetriesPerSecond()), in.GetTtl().AsDuration()
}

// deposit notes a request that is no retry.
func (b *budget) deposit(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	b.requests++
	b.tokens += b.ratio
}

// withdraw says whether one retry more is allowed, and notes it.
func (b *budget) withdraw(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// age adds what time adds, and takes what it takes.
func (b *budget) age(now time.Time) {
	elapsed := now.Sub(b.at)
	if b.at.IsZero() || elapsed > b.ttl {
		elapsed, b.tokens, b.requests = b.ttl, 0, 0
	}
	b.at = now
	keep := 1 - elapsed.Seconds()/max(b.ttl.Seconds(), 1)
	b.requests *= keep
	b.tokens = min(b.tokens+elapsed.Seconds()*b.perSec, b.ttl.Seconds()*b.perSec+b.requests*b.ratio)
}
