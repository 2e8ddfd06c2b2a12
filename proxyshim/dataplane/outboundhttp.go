package dataplane

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// defaultPort is that of names without one in the override header.
const defaultPort = "80"

// keptBytes is how long a request's body may be to be kept, where no policy says.
const keptBytes = 64 << 10

// RoundTrip finds the rule of a request and does what it says.
func (o *outbound) RoundTrip(req *http.Request) (*http.Response, error) {
	x, release, err := o.newExchange(req)
	if err != nil {
		return nil, err
	}
	res, err := x.run()
	x.route.statuses.with(merged(x.labels, statusLabels(res, err))).Inc()
	if err != nil {
		release()
		return nil, err
	}
	if b, ok := res.Body.(*response); ok {
		ended := b.ended
		b.ended = func(err error) {
			ended(err)
			release()
		}
	} else {
		release()
	}
	// What is wrong at the peer is the peers' business.
	res.Header.Del(headerError)
	res.Header.Del(headerConnection)
	return res, nil
}

// newExchange prepares a request. Release is to be called at its end.
func (o *outbound) newExchange(req *http.Request) (_ *exchange, _ func(), err error) {
	in := acceptedOf(req.Context())
	release := func() {}
	if override := req.Header.Get(headerOverride); o.config.IngressMode && override != "" {
		req.Header.Del(headerOverride)
		if _, _, err := net.SplitHostPort(override); err != nil {
			override = net.JoinHostPort(override, defaultPort)
		}
		there := *in
		there.target, release = o.targets.acquire(targetKey{authority: override})
		in = &there
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	plan, err := in.target.plan.wait(req.Context())
	if err != nil {
		return nil, nil, err
	}
	routes := plan.HTTP2
	if req.ProtoMajor == 1 {
		routes = plan.HTTP1
	}
	switch {
	case plan.Invalid != "":
		return nil, nil, invalidPolicy(plan.Invalid)
	case routes == nil:
		return nil, nil, errNoRoute
	}
	x := &exchange{
		outbound: o, in: in, plan: plan, req: req, accrual: routes.Accrual, asked: verdict.NewRequest(req),
		requireID: req.Header.Get(headerRequireID), route: o.metrics.http,
	}
	x.asked.Authority = req.Host
	req.Header.Del(headerRequireID)
	req.Header.Del(headerCanonical)
	if plan.Canonical != "" {
		req.Header.Set(headerCanonical, plan.Canonical)
	}
	if plan.Protocol == verdict.GRPC {
		x.route = o.metrics.gRPC
	}
	var ok bool
	if x.rule, x.match, ok = routes.Routes.Find(x.asked); !ok {
		return nil, nil, errNoRoute
	}
	if x.rule.Labels != nil {
		o.profiled(x)
	}
	x.labels = merged(referenceLabels("parent", plan.Parent), referenceLabels("route", x.rule.Route))
	x.whole = newLimits(req.Context())
	x.whole.after(x.rule.Request, errRequestTime)
	if req.Body != nil && req.Body != http.NoBody {
		// The transport also sends again what a peer that ends has not looked at.
		x.body = &replay{from: req.Body, max: keptBytes}
		if x.rule.Retry != nil {
			x.body.max = x.rule.Retry.MaxBytes
		}
	}
	return x, release, nil
}

// profiled counts a request of a ServiceProfile's route.
func (o *outbound) profiled(x *exchange) {
	x.in.target.budget.deposit(time.Now())
	labels := merged(directionLabels(outboundDirection), prometheus.Labels{"dst": x.plan.Canonical})
	for name, value := range x.rule.Labels {
		labels["rt_"+name] = value
	}
	o.metrics.profileRequests.with(labels).Inc()
}

// tunnel asks an endpoint for what a CONNECT request wants, and passes bytes on
// from then.
func (o *outbound) tunnel(w http.ResponseWriter, r *http.Request) {
	x, release, err := o.newExchange(r)
	if err != nil {
		o.failed(w, r, err)
		return
	}
	defer release()
	defer x.whole.end()
	backend := o.choose(x.in.target, x.rule, x.accrual)
	if backend == nil {
		o.failed(w, r, errNoBackend)
		return
	}
	conn, e, err := o.dial(r.Context(), x.in.target.balancer(backend, x.accrual), backend.FailFast, proxyshim.HTTP1)
	if err != nil {
		o.failed(w, r, err)
		return
	}
	defer e.done(0, nil)
	defer conn.Close()
	if err := connectThrough(w, r, conn, o.buffers); err != nil {
		o.failed(w, r, err)
	}
}

// connectThrough passes a CONNECT request on over conn, and what follows it.
func connectThrough(w http.ResponseWriter, r *http.Request, conn net.Conn, pool *buffers) error {
	out := &http.Request{Method: http.MethodConnect, URL: r.URL, Host: r.Host, Header: r.Header}
	if err := out.Write(conn); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	res, err := http.ReadResponse(answers, out)
	if err != nil {
		return err
	}
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	if res.StatusCode/100 != 2 {
		buffer := pool.Get()
		defer pool.Put(buffer)
		_, err := copyBody(w, res.Body, buffer)
		return err
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := buffered.Flush(); err != nil {
		return nil // the client has gone
	}
	pool.join(withBuffered(client, buffered.Reader), withBuffered(conn, answers))
	return nil
}

// withBuffered gives back what a reader has read ahead.
func withBuffered(c net.Conn, r *bufio.Reader) net.Conn {
	ahead, _ := r.Peek(r.Buffered())
	return proxyshim.Unread(c, ahead)
}
