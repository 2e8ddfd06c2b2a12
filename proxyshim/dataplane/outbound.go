package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

const outboundDirection = "outbound"

// outbound takes the application's connections. Each takes these steps:
//  1. The kernel says where it wants to go, the control plane what is there.
//  2. The protocol is the policy's, or is detected.
//  3. Of HTTP each request finds its rule; of TLS and bytes the connection does.
//  4. The rule chooses a backend, the backend's balancer an endpoint.
type outbound struct {
	config  *Config
	metrics *metrics
	connect *connector
	targets *cache[targetKey, *target]
	http    *http.Server
	queue   *proxyshim.Handoff
	buffers *buffers
	// listeners are where connections are redirected to.
	listeners []netip.AddrPort
}

func newOutbound(config *Config, listeners []net.Listener, m *metrics, connect *connector, pool *buffers) *outbound {
	o := &outbound{config: config, metrics: m, connect: connect, buffers: pool, queue: proxyshim.NewHandoff(&net.TCPAddr{})}
	for _, l := range listeners {
		o.listeners = append(o.listeners, addrPort(l.Addr()))
	}
	forward := newForwarder(http.RoundTripper(o), pool, config.Log, o.failed)
	o.http = newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unmarked(w, r)
		if r.Method == http.MethodConnect && r.ProtoMajor == 1 {
			o.tunnel(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}), config.Log)
	return o
}

// failed answers a request that has got no answer.
func (o *outbound) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	answer := answerOf(r.Context(), err)
	if answer.Close || answer.Status >= http.StatusInternalServerError {
		o.config.Log.Info("outbound request failed", "to", acceptedOf(r.Context()).original, "error", err)
		o.metrics.outboundErrors.with(prometheus.Labels{"error": errorLabel(err)}).Inc()
	}
	write(w, r, answer, true)
}

// serve takes one connection through the steps.
func (o *outbound) serve(ctx context.Context, raw net.Conn) error {
	client, original, err := o.config.Addresses(raw)
	if err != nil {
		return err
	}
	if o.isOwn(original) {
		return fmt.Errorf("%s is the proxy itself", original)
	}
	target, release := o.targets.acquire(targetKey{addr: original})
	defer release()
	labels := merged(directionLabels(outboundDirection), targetLabels(original), prometheus.Labels{"tls": "no_identity", "no_tls_reason": "loopback"})
	conn := o.metrics.counted(raw, merged(labels, prometheus.Labels{"peer": "src"}))
	defer conn.Close()
	plan, err := target.plan.wait(ctx)
	if err != nil {
		return err
	}
	in := &accepted{Conn: conn, client: verdict.Client{Addr: client}, original: original, target: target}
	switch plan.Protocol {
	case verdict.Opaque:
		return o.serveBytes(ctx, in, plan, plan.Opaque)
	case verdict.TLS:
		sniff, first, err := sniffed(conn, handshakeTimeout, isTLSKnown)
		if err != nil {
			return err
		}
		in.Conn = sniff
		name, _ := serverName(first)
		return o.serveBytes(ctx, in, plan, plan.FindTLS(name))
	case verdict.Detect:
		sniff, first, err := sniffed(conn, max(plan.DetectTimeout, o.config.OutboundDetect), isHTTPKnown)
		if err != nil {
			return err
		}
		in.Conn = sniff
		if k := httpKind(first); k != http1 && k != http2 {
			return o.serveBytes(ctx, in, plan, plan.Opaque)
		}
	}
	return serveHTTP(ctx, o.queue, in)
}

// isOwn says whether an address is one that the proxy listens on: what is sent
// there would come back for ever. Where it listens on all addresses, those of
// Services with its port are none of its own.
func (o *outbound) isOwn(addr netip.AddrPort) bool {
	return slices.ContainsFunc(o.listeners, func(l netip.AddrPort) bool {
		return addr == l || addr.Port() == l.Port() && slices.Contains(o.config.InboundIPs, addr.Addr())
	})
}

// serveHTTP hands a connection to the server, and returns when it has ended.
func serveHTTP(ctx context.Context, queue *proxyshim.Handoff, in *accepted) error {
	closed := &closing{accepted: in, done: make(chan struct{})}
	if !queue.Give(closed) {
		return net.ErrClosed
	}
	select {
	case <-closed.done:
	case <-ctx.Done():
		closed.Close()
	}
	return nil
}

// serveBytes passes a connection on by a rule; nil is none.
func (o *outbound) serveBytes(ctx context.Context, in *accepted, plan *verdict.Plan, rule *verdict.Rule) error {
	switch {
	case plan.Invalid != "":
		return reset(in, invalidPolicy(plan.Invalid))
	case rule == nil:
		return reset(in, errNoRoute)
	case rule.Refused != "":
		return reset(in, errors.New(rule.Refused))
	}
	backend := o.choose(in.target, rule, nil)
	switch {
	case backend == nil:
		return reset(in, errNoBackend)
	case backend.Refused != "":
		return reset(in, errors.New(backend.Refused))
	}
	conn, e, err := o.dial(ctx, in.target.balancer(backend, nil), backend.FailFast, proxyshim.Opaque)
	if err != nil {
		return reset(in, err)
	}
	o.config.Log.Debug("outbound", "to", in.original, "endpoint", e.addr, "identity", e.id)
	begin := time.Now()
	defer func() { e.done(time.Since(begin), nil) }()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); in.Close() })()
	o.buffers.join(in, conn)
	return nil
}

// dial connects to an endpoint of a balancer. Those that cannot be reached are
// passed over, as long as a request may wait for one.
func (o *outbound) dial(ctx context.Context, b *balancer, failFast time.Duration, session proxyshim.SessionProtocol) (net.Conn, *endpoint, error) {
	if b == nil {
		return nil, nil, errNoBackend
	}
	until := time.Now().Add(failFast)
	for {
		e, err := b.pick(ctx, time.Until(until))
		if err != nil {
			return nil, nil, err
		}
		conn, err := e.connect(ctx, session)
		if err == nil {
			return conn, e, nil
		}
		if b.fixed || ctx.Err() != nil {
			e.done(0, nil)
			return nil, nil, err
		}
		e.unreachable()
		o.config.Log.Info("endpoint cannot be reached", "endpoint", e.addr, "error", err)
	}
}

// choose draws a backend of a rule; nil is none.
func (o *outbound) choose(t *target, rule *verdict.Rule, accrual *outboundpb.FailureAccrual) *verdict.Backend {
	return rule.Backends.Choose(func(b *verdict.Backend) bool {
		balancer := t.balancer(b, accrual)
		return balancer == nil || balancer.available()
	}, func(n uint64) uint64 { return rand.Uint64N(n) })
}

// reset ends a connection so that its client sees an error, not an end.
func reset(in *accepted, why error) error {
	for c := net.Conn(in); ; {
		switch inner := c.(type) {
		case *net.TCPConn:
			_ = inner.SetLinger(0)
			inner.Close()
			return fmt.Errorf("connection refused: %w", why)
		case interface{ Unwrap() net.Conn }:
			c = inner.Unwrap()
		default:
			in.Close()
			return fmt.Errorf("connection refused: %w", why)
		}
	}
}
