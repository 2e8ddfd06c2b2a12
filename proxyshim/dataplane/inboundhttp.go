package dataplane

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// ServeHTTP judges a request by the policy in force and passes it on.
func (i *inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := acceptedOf(r.Context())
	if answer := i.judge(in, r); answer != nil {
		i.failed(w, r, answer)
		return
	}
	r.Header.Del(headerClientID)
	if in.client.Identity != "" {
		r.Header.Set(headerClientID, in.client.Identity)
	}
	unmarked(w, r)
	if r.Method == http.MethodConnect && r.ProtoMajor == 1 {
		conn, err := in.port.app(in.original).connect(r.Context(), proxyshim.HTTP1)
		if err == nil {
			defer conn.Close()
			err = connectThrough(w, r, conn, i.buffers)
		}
		if err != nil {
			i.failed(w, r, err)
		}
		return
	}
	i.forward.ServeHTTP(w, r)
}

// failed answers a request that the application has not.
func (i *inbound) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	in := acceptedOf(r.Context())
	answer := answerOf(r.Context(), err)
	i.config.Log.Info("inbound request failed", "client", in.client.Addr, "identity", in.client.Identity, "port", in.original.Port(), "server", in.port.now().Name, "method", r.Method, "error", err)
	if answer.Status >= http.StatusInternalServerError {
		i.metrics.inboundErrors.with(merged(targetLabels(in.original), prometheus.Labels{"error": errorLabel(err)})).Inc()
	}
	write(w, r, answer, in.client.TLS)
}

// judge returns the answer to a request that is not passed on, and counts it.
func (i *inbound) judge(in *accepted, r *http.Request) *verdict.Answer {
	server := in.port.now()
	labels := merged(in.labels, policyLabels(server.Server, in.original.Port()))
	delete(labels, "direction")
	switch {
	case server.Invalid != "":
		return invalidPolicy(server.Invalid)
	case server.Routes == nil:
		return errNoRoute
	}
	asked := verdict.NewRequest(r)
	rule, match, ok := server.Routes.Find(asked)
	if !ok {
		i.metrics.httpNotFound.with(labels).Inc()
		return errNoRoute
	}
	labels = merged(labels, metaLabels("route", rule.Route))
	authorization := rule.Authorize(in.client)
	if authorization == nil {
		i.metrics.httpDeny.with(labels).Inc()
		return errUnauthorized
	}
	labels = merged(labels, metaLabels("authz", authorization))
	if authorization.GetDefault() == "audit" {
		i.config.Log.Info("request allowed", "client", in.client.Addr, "identity", in.client.Identity, "port", in.original.Port(), "server", server.Name)
	}
	i.metrics.httpAllow.with(labels).Inc()
	if ok, scope := server.limit.allow(in.client.Identity); !ok {
		i.metrics.rateLimits.with(merged(in.labels, policyLabels(server.Server, in.original.Port()), metaLabels("ratelimit", server.RateLimit.GetMetadata()), prometheus.Labels{"ratelimit_scope": scope})).Inc()
		return errRateLimited
	}
	if answer := verdict.Apply(rule.Filters, asked, match, r.Header, rand.Uint32N); answer != nil {
		return answer
	}
	i.config.Log.Debug("inbound", "client", in.client.Addr, "identity", in.client.Identity, "port", in.original.Port(), "server", server.Name)
	*r = *r.WithContext(withLabels(r.Context(), merged(labels, directionLabels(inboundDirection))))
	return nil
}

// RoundTrip sends a request to the application. One that was HTTP/1 when it
// began is so again.
func (i *inbound) RoundTrip(req *http.Request) (*http.Response, error) {
	in := acceptedOf(req.Context())
	original := req.Header.Get(headerOrigProto)
	if original != "" && req.ProtoMajor == 2 {
		req.Header.Del(headerOrigProto)
		req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
		if strings.HasPrefix(original, "HTTP/1.0") {
			req.Proto, req.ProtoMinor = "HTTP/1.0", 0
		}
	}
	labels := labelsOf(req.Context())
	begin := time.Now()
	i.metrics.requests.with(labels).Inc()
	limits := newLimits(req.Context())
	res, err := in.port.app(in.original).roundTrip(req.WithContext(limits.ctx))
	if err != nil {
		limits.end()
		return nil, err
	}
	if original != "" {
		res.Header.Set(headerOrigProto, "HTTP/1.1")
	}
	body := &response{ReadCloser: res.Body, res: res, limits: limits, ended: func(err error) { i.metrics.finished(labels, begin, res, err) }}
	if w, ok := res.Body.(io.Writer); ok && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = upgraded{body, w}
		return res, nil
	}
	res.Body = body
	return res, nil
}
