package settings

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Annotations of Services and EgressNetworks (policy-outbound 7).
const (
	FailureAccrualAnnotation  = "balancer.linkerd.io/failure-accrual"
	MaxFailuresAnnotation     = FailureAccrualAnnotation + "-consecutive-max-failures"
	MaxPenaltyAnnotation      = FailureAccrualAnnotation + "-consecutive-max-penalty"
	MinPenaltyAnnotation      = FailureAccrualAnnotation + "-consecutive-min-penalty"
	JitterRatioAnnotation     = FailureAccrualAnnotation + "-consecutive-jitter-ratio"
	ThresholdAnnotation       = "balancer.alpha.linkerd.io/failure-accrual-success-rate-threshold"
	WindowAnnotation          = "balancer.alpha.linkerd.io/failure-accrual-success-rate-window"
	MinRequestsAnnotation     = "balancer.alpha.linkerd.io/failure-accrual-success-rate-min-requests"
	HonorRetryAfterAnnotation = "balancer.alpha.linkerd.io/failure-accrual-honor-retry-after"

	PenalizeFailuresAnnotation = "balancer.alpha.linkerd.io/penalize-failures"
	PenaltyAnnotation          = "balancer.alpha.linkerd.io/load-biaser-penalty"
	MaxRetryAfterAnnotation    = "balancer.alpha.linkerd.io/load-biaser-max-retry-after"
)

const (
	defaultMaxFailures = 7
	defaultJitterRatio = 0.5
	maxJitterRatio     = 100
	defaultThreshold   = 0.8
	defaultMinRequests = 5
	maxMinRequests     = 1_000_000

	// DefaultRTT is what an endpoint's latency is taken for before one was measured.
	DefaultRTT = 30 * time.Millisecond
	// LoadDecay is how long a latency and a penalty weigh on an endpoint.
	LoadDecay = 10 * time.Second
)

// What holds without annotations, and limits.
var (
	defaultMinPenalty    = Duration{seconds: 1}
	defaultMaxPenalty    = Duration{seconds: 60}
	defaultWindow        = Duration{seconds: 10}
	shortestWindow       = milliseconds(10)
	defaultPenalty       = Duration{seconds: 5}
	longestPenalty       = milliseconds(1<<32 - 1)
	defaultMaxRetryAfter = Duration{seconds: 300}
)

// ParseFailureAccrual returns nil where endpoints are not taken out for failures. The
// bounds are those that proxies insist on, else they refuse the whole policy.
func ParseFailureAccrual(values map[string]string) (*pb.FailureAccrual, error) {
	mode, ok := values[FailureAccrualAnnotation]
	if !ok {
		return nil, nil
	}
	if mode != "consecutive" && mode != "unified" {
		return nil, fmt.Errorf("%s: %q is neither consecutive nor unified", FailureAccrualAnnotation, printable.Short(mode))
	}
	a := annotations{values: values}
	maxFailures := uint32(a.uintOr(MaxFailuresAnnotation, 32, defaultMaxFailures))
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
	longest := a.durationOr(MaxPenaltyAnnotation, defaultMaxPenalty)
	shortest := a.durationOr(MinPenaltyAnnotation, defaultMinPenalty)
	jitter := a.floatOr(JitterRatioAnnotation, 32, defaultJitterRatio)
	a.check(!longest.IsZero(), "%s: zero", MaxPenaltyAnnotation)
	a.check(!shortest.longerThan(longest), "%s: more than the maximum", MinPenaltyAnnotation)
	a.check(jitter >= 0 && jitter <= maxJitterRatio, "%s: not from 0 to %d", JitterRatioAnnotation, maxJitterRatio)
	return &pb.ExponentialBackoff{MinBackoff: shortest.Message(), MaxBackoff: longest.Message(), JitterRatio: float32(jitter)}
}

func (a *annotations) unified(maxFailures uint32, backoff *pb.ExponentialBackoff) *pb.FailureAccrual_Unified {
	threshold := a.floatOr(ThresholdAnnotation, 64, defaultThreshold)
	window := a.durationOr(WindowAnnotation, defaultWindow)
	minRequests := a.uintOr(MinRequestsAnnotation, 32, defaultMinRequests)
	a.check(threshold >= 0 && threshold <= 1, "%s: not from 0 to 1", ThresholdAnnotation)
	a.check(!window.IsZero(), "%s: zero", WindowAnnotation)
	a.check(threshold == 0 || !shortestWindow.longerThan(window), "%s: less than 10ms", WindowAnnotation)
	a.check(threshold == 0 || minRequests <= maxMinRequests, "%s: more than %d", MinRequestsAnnotation, maxMinRequests)
	honor := annotations{values: a.values}
	backoff.RespectRetryAfterHint = honor.bool(HonorRetryAfterAnnotation)
	return &pb.FailureAccrual_Unified{
		SuccessRateThreshold:   threshold,
		Decay:                  window.Message(),
		MinRequests:            uint32(minRequests),
		MaxConsecutiveFailures: maxFailures,
		Backoff:                backoff,
	}
}

// CheckHonorRetryAfter tells what ParseFailureAccrual made false without a word: a
// bad value there harms nothing else.
func CheckHonorRetryAfter(values map[string]string) error {
	a := annotations{values: values}
	a.bool(HonorRetryAfterAnnotation)
	return a.err
}

// ParsePenalty returns how the load of failing endpoints is raised, nil if it is not.
func ParsePenalty(values map[string]string) (*pb.Backend_BalanceP2C_PenaltyPeakEwma, error) {
	a := annotations{values: values}
	if !a.bool(PenalizeFailuresAnnotation) {
		return nil, a.err
	}
	penalty := a.durationOr(PenaltyAnnotation, defaultPenalty)
	maxRetryAfter := a.durationOr(MaxRetryAfterAnnotation, defaultMaxRetryAfter)
	a.check(!penalty.longerThan(longestPenalty), "%s: more than 2^32-1 ms", PenaltyAnnotation)
	if a.err != nil {
		return nil, a.err
	}
	return &pb.Backend_BalanceP2C_PenaltyPeakEwma{
		DefaultRtt:    durationpb.New(DefaultRTT),
		Decay:         durationpb.New(LoadDecay),
		Penalty:       penalty.Message(),
		MaxRetryAfter: maxRetryAfter.Message(),
		PenaltyDecay:  durationpb.New(LoadDecay),
	}, nil
}
