package dataplane

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// exchange is one request of the application, with all its tries.
type exchange struct {
	*outbound
	in      *accepted
	plan    *verdict.Plan
	rule    *verdict.Rule
	match   verdict.Match
	accrual *outboundpb.FailureAccrual
	// req is the request as the application sent it.
	req       *http.Request
	asked     *verdict.Request
	body      *replay
	requireID string
	// whole bounds the request with all its tries.
	whole  *limits
	route  *routeMetrics
	labels prometheus.Labels
	// passed says that an answer has been passed on.
	passed bool
}

// run sends the request until an answer need not be asked for again.
func (x *exchange) run() (*http.Response, error) {
	for n := 1; ; n++ {
		res, err := x.try(n)
		if !x.again(n, res, err) {
			if n > 1 && err == nil {
				x.route.retrySuccesses.with(x.labels).Inc()
			}
			x.passed = true
			if err != nil {
				x.whole.end()
			}
			return res, err
		}
		if err == nil {
			res.Body.Close()
		}
		x.route.retries.with(x.labels).Inc()
		select {
		case <-time.After(x.rule.Retry.Backoff.Wait(n, rand.Float64())):
		case <-x.whole.ctx.Done():
			x.whole.end()
			return nil, context.Cause(x.whole.ctx)
		}
	}
}

// again says whether the request is sent again after try n.
func (x *exchange) again(n int, res *http.Response, err error) bool {
	retry := x.rule.Retry
	switch {
	case retry == nil || x.whole.ctx.Err() != nil || !x.body.again():
		return false
	case err != nil && !retryable(err), err == nil && !retry.Retryable(verdict.NewOutcome(res.StatusCode, res.Header)):
		return false
	case n > retry.Max:
		x.route.retryOverLimit.with(x.labels).Inc()
		return false
	}
	return retry.Budget == nil || x.in.target.budget.withdraw(time.Now())
}

// retryable says whether a try that got no answer may be made again: only when
// no server can have acted on it, or it took too long.
func retryable(err error) bool {
	var answer *verdict.Answer
	return errors.As(err, &answer) && (answer == errFailFast || answer == errUnavailable || answer == errTryTime)
}

// try makes one try: filters, backend, endpoint, answer.
func (x *exchange) try(n int) (*http.Response, error) {
	l := newLimits(x.whole.ctx)
	res, err := x.send(l, n)
	if err != nil {
		var answer *verdict.Answer
		if !errors.As(err, &answer) && errors.As(context.Cause(l.ctx), &answer) {
			err = answer
		}
		l.end()
	}
	return res, err
}

func (x *exchange) send(l *limits, n int) (*http.Response, error) {
	header := x.req.Header.Clone()
	share := rand.Uint32N
	if answer := verdict.Apply(x.rule.Filters, x.asked, x.match, header, share); answer != nil {
		return nil, answer
	}
	backend := x.choose(x.in.target, x.rule, x.accrual)
	if backend == nil {
		return nil, errNoBackend
	}
	labels := merged(x.labels, referenceLabels("backend", backend.Meta))
	x.route.backendRequests.with(labels).Inc()
	if answer := verdict.Apply(backend.Filters, x.asked, x.match, header, share); answer != nil {
		return nil, answer
	}
	balancer := x.in.target.balancer(backend, x.accrual)
	if balancer == nil {
		return nil, errNoBackend
	}
	if x.rule.Retry != nil && n <= x.rule.Retry.Max {
		// The last try may take longer: nothing is decided by its answer.
		l.after(x.rule.Retry.Timeout, errTryTime)
	}
	l.idle = x.rule.Idle
	l.idling = l.after(l.idle, errIdleTime)
	until := time.Now().Add(backend.FailFast)
	for {
		e, err := balancer.pick(l.ctx, time.Until(until))
		if err != nil {
			return nil, err
		}
		if answer := e.requires(x.requireID); answer != nil {
			e.done(0, nil)
			return nil, answer
		}
		res, err := x.exchange(l, e, header)
		var unreached connectError
		if err != nil && errors.As(err, &unreached) && l.ctx.Err() == nil && !balancer.fixed {
			e.unreachable()
			x.config.Log.Info("endpoint cannot be reached", "endpoint", e.addr, "error", err)
			continue
		}
		if err != nil {
			e.done(0, x.outcome(nil, err))
			return nil, err
		}
		verdict.ApplyResponse(backend.Filters, res.Header)
		verdict.ApplyResponse(x.rule.Filters, res.Header)
		x.route.backendStatuses.with(merged(labels, statusLabels(res, nil))).Inc()
		return res, nil
	}
}

// exchange sends the request to an endpoint.
func (x *exchange) exchange(l *limits, e *endpoint, header http.Header) (*http.Response, error) {
	begin := time.Now()
	req := x.req.Clone(l.ctx)
	req.Header = header.Clone()
	req.Trailer = x.req.Trailer
	sent := func() { l.after(x.rule.Response, errResponseTime) }
	if x.body != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			if !x.body.again() {
				return nil, errNotKept
			}
			return &replayed{replay: x.body, active: l.active, ended: sent}, nil
		}
		req.Body = &replayed{replay: x.body, active: l.active, ended: sent}
	} else {
		sent()
	}
	labels := merged(directionLabels(outboundDirection), targetLabels(e.addr), serverLabels(e.id), e.labels)
	x.metrics.requests.with(labels).Inc()
	x.config.Log.Debug("outbound", "to", x.in.original, "endpoint", e.addr, "identity", e.id)
	res, err := e.roundTrip(req)
	if err != nil {
		return nil, err
	}
	l.active()
	latency := time.Since(begin)
	body := &response{ReadCloser: res.Body, res: res, limits: l, grpc: isGRPC(res.Header)}
	body.ended = func(err error) {
		e.done(latency, x.outcome(res, err))
		x.metrics.finished(labels, begin, res, err)
		if x.passed {
			x.whole.end()
		}
	}
	if w, ok := res.Body.(io.Writer); ok && res.StatusCode == http.StatusSwitchingProtocols {
		l.stop()
		x.whole.stop()
		res.Body = upgraded{body, w}
		return res, nil
	}
	res.Body = body
	return res, nil
}

// outcome is how a try ended, nil if the application has given it up.
func (x *exchange) outcome(res *http.Response, err error) *verdict.Outcome {
	switch {
	case x.req.Context().Err() != nil:
		return nil
	case res == nil || err != nil && !errors.Is(err, context.Canceled):
		return &verdict.Outcome{Status: http.StatusBadGateway}
	}
	o := verdict.NewOutcome(res.StatusCode, res.Header, res.Trailer)
	return &o
}
