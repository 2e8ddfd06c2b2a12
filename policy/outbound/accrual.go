package outbound

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Annotations of Services and EgressNetworks (policy-outbound 7).
const (
	accrualAnnotation         = "balancer.linkerd.io/failure-accrual"
	maxFailuresAnnotation     = accrualAnnotation + "-consecutive-max-failures"
	maxPenaltyAnnotation      = accrualAnnotation + "-consecutive-max-penalty"
	minPenaltyAnnotation      = accrualAnnotation + "-consecutive-min-penalty"
	jitterRatioAnnotation     = accrualAnnotation + "-consecutive-jitter-ratio"
	thresholdAnnotation       = "balancer.alpha.linkerd.io/failure-accrual-success-rate-threshold"
	windowAnnotation          = "balancer.alpha.linkerd.io/failure-accrual-success-rate-window"
	minRequestsAnnotation     = "balancer.alpha.linkerd.io/failure-accrual-success-rate-min-requests"
	honorRetryAfterAnnotation = "balancer.alpha.linkerd.io/failure-accrual-honor-retry-after"

	penalizeAnnotation      = "balancer.alpha.linkerd.io/penalize-failures"
	penaltyAnnotation       = "balancer.alpha.linkerd.io/load-biaser-penalty"
	maxRetryAfterAnnotation = "balancer.alpha.linkerd.io/load-biaser-max-retry-after"
)

const (
	defaultMaxFailures = 7
	defaultJitterRatio = 0.5
	maxJitterRatio     = 100
	defaultThreshold   = 0.8
	defaultMinRequests = 5
	maxMinRequests     = 1_000_000

	defaultRTT = 30 * time.Millisecond
	// loadDecay is how long a latency and a penalty weigh on an endpoint.
	loadDecay = 10 * time.Second
)

// Spans that hold without annotations, and limits.
var (
	defaultMinPenalty    = span{seconds: 1}
	defaultMaxPenalty    = span{seconds: 60}
	defaultWindow        = span{seconds: 10}
	shortestWindow       = milliseconds(10)
	defaultPenalty       = span{seconds: 5}
	longestPenalty       = milliseconds(1<<32 - 1)
	defaultMaxRetryAfter = span{seconds: 300}
)

// parseAccrual returns nil where endpoints are not taken out for failures. The
// bounds are those that proxies insist on, else they refuse the whole policy.
func parseAccrual(values map[string]string) (*pb.FailureAccrual, error) {
	mode, ok := values[accrualAnnotation]
	if !ok {
		return nil, nil
	}
	if mode != "consecutive" && mode != "unified" {
		return nil, fmt.Errorf("%s: %q is neither consecutive nor unified", accrualAnnotation, mode)
	}
	a := annotations{values: values}
	maxFailures := uint32(a.uintOr(maxFailuresAnnotation, 32, defaultMaxFailures))
	backoff := a.accrualBackoff()
	accrual := &pb.FailureAccrual{}
	if mode == "consecutive" {
		accrual.Kind = &pb.FailureAccrual_ConsecutiveFailures_{ConsecutiveFailures: &pb.FailureAccrual_ConsecutiveFailures{
			MaxFailures: maxFailures,
			Backoff:     backoff,
		}}
	} else {
		accrual.Kind = &pb.FailureAccrual_Unified_{Unified: a.unified(maxFailures, backoff)}
	}
	if a.err != nil {
		return nil, a.err
	}
	return accrual, nil
}

func (a *annotations) accrualBackoff() *pb.ExponentialBackoff {
	longest := a.spanOr(maxPenaltyAnnotation, defaultMaxPenalty)
	shortest := a.spanOr(minPenaltyAnnotation, defaultMinPenalty)
	jitter := a.floatOr(jitterRatioAnnotation, 32, defaultJitterRatio)
	a.check(!longest.isZero(), "%s: zero", maxPenaltyAnnotation)
	a.check(!shortest.longerThan(longest), "%s: more than the maximum", minPenaltyAnnotation)
	a.check(jitter >= 0 && jitter <= maxJitterRatio, "%s: not from 0 to %d", jitterRatioAnnotation, maxJitterRatio)
	return &pb.ExponentialBackoff{MinBackoff: shortest.message(), MaxBackoff: longest.message(), JitterRatio: float32(jitter)}
}

func (a *annotations) unified(maxFailures uint32, backoff *pb.ExponentialBackoff) *pb.FailureAccrual_Unified {
	threshold := a.floatOr(thresholdAnnotation, 64, defaultThreshold)
	window := a.spanOr(windowAnnotation, defaultWindow)
	minRequests := a.uintOr(minRequestsAnnotation, 32, defaultMinRequests)
	a.check(threshold >= 0 && threshold <= 1, "%s: not from 0 to 1", thresholdAnnotation)
	a.check(!window.isZero(), "%s: zero", windowAnnotation)
	a.check(threshold == 0 || !shortestWindow.longerThan(window), "%s: less than 10ms", windowAnnotation)
	a.check(threshold == 0 || minRequests <= maxMinRequests, "%s: more than %d", minRequestsAnnotation, maxMinRequests)
	honor := annotations{values: a.values}
	backoff.RespectRetryAfterHint = honor.bool(honorRetryAfterAnnotation)
	return &pb.FailureAccrual_Unified{
		SuccessRateThreshold:   threshold,
		Decay:                  window.message(),
		MinRequests:            uint32(minRequests),
		MaxConsecutiveFailures: maxFailures,
		Backoff:                backoff,
	}
}

// checkHonorRetryAfter tells what parseAccrual made false without a word: a
// bad value there harms nothing else.
func checkHonorRetryAfter(values map[string]string) error {
	a := annotations{values: values}
	a.bool(honorRetryAfterAnnotation)
	return a.err
}

// parsePenalty returns how the load of failing endpoints is raised, nil if it is not.
func parsePenalty(values map[string]string) (*pb.Backend_BalanceP2C_PenaltyPeakEwma, error) {
	a := annotations{values: values}
	if !a.bool(penalizeAnnotation) {
		return nil, a.err
	}
	penalty := a.spanOr(penaltyAnnotation, defaultPenalty)
	maxRetryAfter := a.spanOr(maxRetryAfterAnnotation, defaultMaxRetryAfter)
	a.check(!penalty.longerThan(longestPenalty), "%s: more than 2^32-1 ms", penaltyAnnotation)
	if a.err != nil {
		return nil, a.err
	}
	return &pb.Backend_BalanceP2C_PenaltyPeakEwma{
		DefaultRtt:    durationpb.New(defaultRTT),
		Decay:         durationpb.New(loadDecay),
		Penalty:       penalty.message(),
		MaxRetryAfter: maxRetryAfter.message(),
		PenaltyDecay:  durationpb.New(loadDecay),
	}, nil
}
