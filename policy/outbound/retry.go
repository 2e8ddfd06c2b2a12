package outbound

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Annotations of Services, EgressNetworks, HTTPRoutes and GRPCRoutes (policy-outbound 6.1).
const (
	timeoutRequestAnnotation  = "timeout.linkerd.io/request"
	timeoutResponseAnnotation = "timeout.linkerd.io/response"
	timeoutIdleAnnotation     = "timeout.linkerd.io/idle"
	retryLimitAnnotation      = "retry.linkerd.io/limit"
	retryTimeoutAnnotation    = "retry.linkerd.io/timeout"
	retryHTTPAnnotation       = "retry.linkerd.io/http"
	retryGRPCAnnotation       = "retry.linkerd.io/grpc"
)

const (
	// defaultRetries is how often is retried when no limit is given.
	defaultRetries = 1
	// maxRetryBytes is the size in bytes of the largest request body that is retried.
	maxRetryBytes    = 65536
	retryMinBackoff  = 25 * time.Millisecond
	retryMaxBackoff  = 250 * time.Millisecond
	retryJitterRatio = 1.0
)

// timeouts are what a request may take; nil is no limit. Immutable.
type timeouts struct{ request, response, idle *span }

func (t timeouts) isZero() bool { return t == timeouts{} }

func (t timeouts) message() *http_route.Timeouts {
	return &http_route.Timeouts{Request: t.request.message(), Response: t.response.message(), Idle: t.idle.message()}
}

func parseTimeouts(values map[string]string) (timeouts, error) {
	a := annotations{values: values}
	t := timeouts{
		request:  a.span(timeoutRequestAnnotation),
		response: a.span(timeoutResponseAnnotation),
		idle:     a.span(timeoutIdleAnnotation),
	}
	if a.err != nil {
		return timeouts{}, a.err
	}
	return t, nil
}

// retry is what both protocols have in common.
type retry struct {
	limit   uint32
	timeout *span
}

// parseRetry reads limit and timeout. Either of them makes a retry, as does
// the annotation named conditions, which is given to parse.
func parseRetry(values map[string]string, conditions string, parse func(text string) error) (*retry, error) {
	a := annotations{values: values}
	r := retry{limit: defaultRetries}
	var limit uint64
	a.read(retryLimitAnnotation, func(text string) (err error) { limit, err = parseUint(text, 16); return err })
	r.timeout = a.span(retryTimeoutAnnotation).unless0()
	conditional := a.read(conditions, parse)
	if a.err != nil {
		return nil, a.err
	}
	if limit == 0 && r.timeout == nil && !conditional {
		return nil, nil
	}
	if limit != 0 {
		r.limit = uint32(limit)
	}
	return &r, nil
}

func retryBackoff() *pb.ExponentialBackoff {
	return &pb.ExponentialBackoff{
		MinBackoff:  durationpb.New(retryMinBackoff),
		MaxBackoff:  durationpb.New(retryMaxBackoff),
		JitterRatio: retryJitterRatio,
	}
}

// parseHTTPRetry returns nil where nothing is retried. Conditions are always
// present, since proxies refuse a whole policy that lacks them.
func parseHTTPRetry(values map[string]string) (*pb.HttpRoute_Retry, error) {
	conditions := &pb.HttpRoute_Retry_Conditions{}
	r, err := parseRetry(values, retryHTTPAnnotation, func(text string) (err error) {
		conditions.StatusRanges, err = parseStatusRanges(text)
		return err
	})
	if r == nil {
		return nil, err
	}
	return &pb.HttpRoute_Retry{
		MaxRetries:      r.limit,
		MaxRequestBytes: maxRetryBytes,
		Conditions:      conditions,
		Timeout:         r.timeout.message(),
		Backoff:         retryBackoff(),
	}, nil
}

// parseGRPCRetry is parseHTTPRetry for gRPC.
func parseGRPCRetry(values map[string]string) (*pb.GrpcRoute_Retry, error) {
	conditions := &pb.GrpcRoute_Retry_Conditions{}
	r, err := parseRetry(values, retryGRPCAnnotation, func(text string) error {
		return parseGRPCConditions(text, conditions)
	})
	if r == nil {
		return nil, err
	}
	return &pb.GrpcRoute_Retry{
		MaxRetries:      r.limit,
		MaxRequestBytes: maxRetryBytes,
		Conditions:      conditions,
		Timeout:         r.timeout.message(),
		Backoff:         retryBackoff(),
	}, nil
}

// parseStatusRanges reads a comma-separated list of statuses, which is not trimmed (P205, P206).
func parseStatusRanges(list string) ([]*pb.HttpRoute_Retry_Conditions_StatusRange, error) {
	var ranges []*pb.HttpRoute_Retry_Conditions_StatusRange
	for _, item := range strings.Split(list, ",") {
		low, high, ok := parseStatusRange(item)
		if !ok {
			return nil, fmt.Errorf("%q is neither 5xx, gateway-error, a status from 100 to 599 nor a range of them", item)
		}
		ranges = append(ranges, &pb.HttpRoute_Retry_Conditions_StatusRange{Start: low, End: high})
	}
	return ranges, nil
}

func parseStatusRange(item string) (low, high uint32, ok bool) {
	switch strings.ToLower(item) {
	case "5xx":
		return 500, 599, true
	case "gateway-error":
		return 502, 504, true
	}
	from, to, isRange := strings.Cut(item, "-")
	if !isRange {
		to = from
	}
	l, errLow := parseUint(from, 32)
	h, errHigh := parseUint(to, 32)
	ok = errLow == nil && errHigh == nil && l >= 100 && l <= h && h <= 599
	return uint32(l), uint32(h), ok
}

func parseGRPCConditions(list string, into *pb.GrpcRoute_Retry_Conditions) error {
	for _, item := range strings.Split(list, ",") {
		switch strings.ToLower(item) {
		case "cancelled":
			into.Cancelled = true
		case "deadline-exceeded":
			into.DeadineExceeded = true
		case "internal":
			into.Internal = true
		case "resource-exhausted":
			into.ResourceExhausted = true
		case "unavailable":
			into.Unavailable = true
		default:
			return fmt.Errorf("%q is not one of cancelled, deadline-exceeded, internal, resource-exhausted, unavailable", item)
		}
	}
	return nil
}
