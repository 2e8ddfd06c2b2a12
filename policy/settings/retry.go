package settings

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Annotations of Services, EgressNetworks, HTTPRoutes and GRPCRoutes (policy-outbound 6.1).
const (
	TimeoutRequestAnnotation  = "timeout.linkerd.io/request"
	TimeoutResponseAnnotation = "timeout.linkerd.io/response"
	TimeoutIdleAnnotation     = "timeout.linkerd.io/idle"
	RetryLimitAnnotation      = "retry.linkerd.io/limit"
	RetryTimeoutAnnotation    = "retry.linkerd.io/timeout"
	RetryHTTPAnnotation       = "retry.linkerd.io/http"
	RetryGRPCAnnotation       = "retry.linkerd.io/grpc"
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

// Timeouts are what a request may take; nil is no limit. Immutable.
type Timeouts struct{ Request, Response, Idle *Duration }

// IsZero tells whether there is no timeout at all: the parent's apply then.
func (t Timeouts) IsZero() bool { return t == Timeouts{} }

// Message is the timeouts as proxies read them.
func (t Timeouts) Message() *http_route.Timeouts {
	return &http_route.Timeouts{Request: t.Request.Message(), Response: t.Response.Message(), Idle: t.Idle.Message()}
}

// ParseTimeouts reads the three timeout annotations.
func ParseTimeouts(values map[string]string) (Timeouts, error) {
	a := annotations{values: values}
	t := Timeouts{
		Request:  a.duration(TimeoutRequestAnnotation),
		Response: a.duration(TimeoutResponseAnnotation),
		Idle:     a.duration(TimeoutIdleAnnotation),
	}
	if a.err != nil {
		return Timeouts{}, a.err
	}
	return t, nil
}

// retry is what both protocols have in common.
type retry struct {
	limit   uint32
	timeout *Duration
}

// parseRetry reads limit and timeout. Either of them makes a retry, as does
// the annotation named conditions, which is given to parse.
func parseRetry(values map[string]string, conditions string, parse func(text string) error) (*retry, error) {
	a := annotations{values: values}
	r := retry{limit: defaultRetries}
	var limit uint64
	a.read(RetryLimitAnnotation, func(text string) (err error) { limit, err = parseUint(text, 16); return err })
	r.timeout = a.duration(RetryTimeoutAnnotation).Positive()
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

// ParseHTTPRetry returns nil where nothing is retried. Conditions are always
// present, since proxies refuse a whole policy that lacks them.
func ParseHTTPRetry(values map[string]string) (*pb.HttpRoute_Retry, error) {
	conditions := &pb.HttpRoute_Retry_Conditions{}
	r, err := parseRetry(values, RetryHTTPAnnotation, func(text string) (err error) {
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
		Timeout:         r.timeout.Message(),
		Backoff:         retryBackoff(),
	}, nil
}

// ParseGRPCRetry is ParseHTTPRetry for gRPC.
func ParseGRPCRetry(values map[string]string) (*pb.GrpcRoute_Retry, error) {
	conditions := &pb.GrpcRoute_Retry_Conditions{}
	r, err := parseRetry(values, RetryGRPCAnnotation, func(text string) error {
		return parseGRPCConditions(text, conditions)
	})
	if r == nil {
		return nil, err
	}
	return &pb.GrpcRoute_Retry{
		MaxRetries:      r.limit,
		MaxRequestBytes: maxRetryBytes,
		Conditions:      conditions,
		Timeout:         r.timeout.Message(),
		Backoff:         retryBackoff(),
	}, nil
}

// parseStatusRanges reads a comma-separated list of statuses, which is not trimmed (P205, P206).
func parseStatusRanges(list string) ([]*pb.HttpRoute_Retry_Conditions_StatusRange, error) {
	var ranges []*pb.HttpRoute_Retry_Conditions_StatusRange
	for _, item := range strings.Split(list, ",") {
		low, high, ok := parseStatusRange(item)
		if !ok {
			return nil, fmt.Errorf("%q is neither 5xx, gateway-error, a status from 100 to 599 nor a range of them", printable.Short(item))
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
			return fmt.Errorf("%q is not one of cancelled, deadline-exceeded, internal, resource-exhausted, unavailable", printable.Short(item))
		}
	}
	return nil
}

// CheckHTTP says what is wrong with the retry and timeout annotations of an
// HTTP route; the error names the annotation (P61-P63).
func CheckHTTP(annotations map[string]string) error {
	_, timeoutErr := ParseTimeouts(annotations)
	_, retryErr := ParseHTTPRetry(annotations)
	return errors.Join(timeoutErr, retryErr)
}

// CheckGRPC is CheckHTTP for a gRPC route.
func CheckGRPC(annotations map[string]string) error {
	_, timeoutErr := ParseTimeouts(annotations)
	_, retryErr := ParseGRPCRetry(annotations)
	return errors.Join(timeoutErr, retryErr)
}
