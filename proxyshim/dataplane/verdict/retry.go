package verdict

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Retry is when a request is sent again.
type Retry struct {
	// Max is the number of requests besides the first.
	Max int
	// MaxBytes is the size of the longest body that is kept.
	MaxBytes int
	// Timeout is that of each try; zero is none.
	Timeout time.Duration
	Backoff Backoff
	// Budget bounds the retries of a ServiceProfile, which have no other limit.
	Budget *destination.RetryBudget

	retryable func(Outcome) bool
}

// Outcome is how a request ended.
type Outcome struct {
	Status int
	// GRPC is the status of gRPC, in the header or the trailer; nil if there is none.
	GRPC *codes.Code
}

// NewOutcome reads an answer's status and, from header or trailer, gRPC's.
func NewOutcome(status int, headers ...http.Header) Outcome {
	o := Outcome{Status: status}
	for _, h := range headers {
		if code, err := strconv.ParseUint(h.Get("Grpc-Status"), 10, 32); err == nil {
			c := codes.Code(code)
			o.GRPC = &c
		}
	}
	return o
}

// Failed says whether the server has failed, as metrics and circuit breakers
// see it.
func (o Outcome) Failed() bool {
	if o.GRPC != nil {
		switch *o.GRPC {
		case codes.Unknown, codes.DeadlineExceeded, codes.PermissionDenied, codes.Internal, codes.Unavailable, codes.DataLoss:
			return true
		}
		return false
	}
	return o.Status >= 500
}

// Retryable says whether a request that ended so is sent again, while others
// are allowed.
func (r *Retry) Retryable(o Outcome) bool { return r.retryable(o) }

// Backoff is the wait between tries.
type Backoff struct {
	Min, Max time.Duration
	// Jitter is the share of the wait that is added by chance, at most.
	Jitter float64
}

// Wait is that before try n, counted from 1; chance is in [0, 1).
func (b Backoff) Wait(n int, chance float64) time.Duration {
	wait := float64(b.Min) * math.Pow(2, float64(min(n, 62)-1))
	wait = min(wait, float64(b.Max))
	return min(time.Duration(wait+wait*b.Jitter*chance), b.Max)
}

// NewBackoff reads one.
func NewBackoff(b *outbound.ExponentialBackoff) Backoff {
	return Backoff{Min: duration(b.GetMinBackoff()), Max: duration(b.GetMaxBackoff()), Jitter: float64(b.GetJitterRatio())}
}

func httpRetry(r *outbound.HttpRoute_Retry) *Retry {
	if r == nil {
		return nil
	}
	ranges := r.GetConditions().GetStatusRanges()
	return &Retry{
		Max: int(r.GetMaxRetries()), MaxBytes: int(r.GetMaxRequestBytes()), Timeout: duration(r.GetTimeout()), Backoff: NewBackoff(r.GetBackoff()),
		retryable: func(o Outcome) bool {
			for _, s := range ranges {
				if o.Status >= int(s.GetStart()) && o.Status <= int(s.GetEnd()) {
					return true
				}
			}
			return false
		},
	}
}

func grpcRetry(r *outbound.GrpcRoute_Retry) *Retry {
	if r == nil {
		return nil
	}
	c := r.GetConditions()
	of := map[codes.Code]bool{
		codes.Canceled: c.GetCancelled(), codes.DeadlineExceeded: c.GetDeadineExceeded(), codes.ResourceExhausted: c.GetResourceExhausted(),
		codes.Internal: c.GetInternal(), codes.Unavailable: c.GetUnavailable(),
	}
	return &Retry{
		Max: int(r.GetMaxRetries()), MaxBytes: int(r.GetMaxRequestBytes()), Timeout: duration(r.GetTimeout()), Backoff: NewBackoff(r.GetBackoff()),
		retryable: func(o Outcome) bool { return o.GRPC != nil && of[*o.GRPC] },
	}
}
