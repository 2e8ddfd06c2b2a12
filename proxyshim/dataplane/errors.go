package dataplane

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"google.golang.org/grpc/codes"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// The answers that a proxy gives itself (proxy section 6).
var (
	errFailFast      = &verdict.Answer{Status: http.StatusGatewayTimeout, Code: codes.DeadlineExceeded, Message: "service in fail-fast", Close: true}
	errUnavailable   = &verdict.Answer{Status: http.StatusServiceUnavailable, Code: codes.Unavailable, Message: "service unavailable", Close: true}
	errNoRoute       = &verdict.Answer{Status: http.StatusNotFound, Code: codes.NotFound, Message: "no route found for request"}
	errUnauthorized  = &verdict.Answer{Status: http.StatusForbidden, Code: codes.PermissionDenied, Message: "unauthorized request on route"}
	errRateLimited   = &verdict.Answer{Status: http.StatusTooManyRequests, Code: codes.ResourceExhausted, Message: "rate limit exceeded"}
	errNoBackend     = &verdict.Answer{Status: http.StatusBadGateway, Code: codes.Unavailable, Message: "no backend", Close: true}
	errRequestTime   = &verdict.Answer{Status: http.StatusGatewayTimeout, Code: codes.DeadlineExceeded, Message: "request timed out"}
	errResponseTime  = &verdict.Answer{Status: http.StatusGatewayTimeout, Code: codes.DeadlineExceeded, Message: "response timed out"}
	errIdleTime      = &verdict.Answer{Status: http.StatusGatewayTimeout, Code: codes.DeadlineExceeded, Message: "stream idle for too long"}
	errTryTime       = &verdict.Answer{Status: http.StatusGatewayTimeout, Code: codes.DeadlineExceeded, Message: "response headers timed out"}
	errWrongIdentity = &verdict.Answer{Status: http.StatusBadGateway, Code: codes.Unavailable, Message: "request required another identity than the endpoint's", Close: true}
)

// errConnectTime is a connection that took too long.
var errConnectTime = errors.New("connect timed out")

// invalidPolicy is the answer of policies that proxies cannot use.
func invalidPolicy(why string) *verdict.Answer {
	return &verdict.Answer{Status: http.StatusInternalServerError, Code: codes.Internal, Message: "invalid policy: " + why, Close: true}
}

// answerOf is what a client gets when its request failed with err.
func answerOf(ctx context.Context, err error) *verdict.Answer {
	var answer *verdict.Answer
	if errors.As(err, &answer) {
		return answer
	}
	// What a timer of ours has cancelled failed for its reason.
	if cause := context.Cause(ctx); errors.As(cause, &answer) {
		return answer
	}
	var timeout net.Error
	if errors.Is(err, errConnectTime) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &verdict.Answer{Status: http.StatusGatewayTimeout, Code: codes.DeadlineExceeded, Message: err.Error(), Close: true}
	}
	return &verdict.Answer{Status: http.StatusBadGateway, Code: codes.Unavailable, Message: err.Error(), Close: true}
}

// errorLabel is the answer's reason in metrics, of a fixed set.
func errorLabel(err error) string {
	var unreached connectError
	switch answer := answerOf(context.Background(), err); {
	case answer == errFailFast:
		return "failfast"
	case answer == errUnavailable:
		return "loadshed"
	case answer == errWrongIdentity:
		return "identity required"
	case errors.As(err, &unreached):
		return "i/o"
	case answer.Code == codes.DeadlineExceeded:
		return "response timeout"
	}
	return "unexpected"
}
