package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// Listeners are where a proxy is reached.
type Listeners struct {
	Inbound, Admin net.Listener
	Outbound       []net.Listener
}

// Listen opens the addresses of a configuration.
func Listen(config Config) (_ *Listeners, err error) {
	l := &Listeners{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.Inbound, err = net.Listen("tcp", config.Inbound); err != nil {
		return nil, fmt.Errorf("inbound: %w", err)
	}
	if l.Admin, err = net.Listen("tcp", config.Admin); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	for _, address := range config.Outbound {
		outbound, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("outbound: %w", err)
		}
		l.Outbound = append(l.Outbound, outbound)
	}
	return l, nil
}

// Close closes those that are open.
func (l *Listeners) Close() {
	for _, listener := range append([]net.Listener{l.Inbound, l.Admin}, l.Outbound...) {
		if listener != nil {
			listener.Close()
		}
	}
}

// Proxy stands in for linkerd2-proxy beside one application.
type Proxy struct {
	config    *Config
	listeners *Listeners
	registry  *prometheus.Registry
	metrics   *metrics
	identity  *identity
}

// New sets a proxy up, which owns the listeners from then on.
func New(config Config, listeners *Listeners) *Proxy {
	p := &Proxy{config: &config, listeners: listeners, registry: prometheus.NewRegistry()}
	p.registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.metrics = newMetrics(p.registry)
	p.identity = newIdentity(p.config, p.metrics, p.registry)
	p.config.Workload.Destination.Renewed = p.identity.certificate
	p.config.Workload.Policy.Renewed = p.identity.certificate
	return p
}

// Ready is closed once the proxy has an identity and takes connections.
func (p *Proxy) Ready() <-chan struct{} { return p.identity.ready }

// Run proxies until ctx ends or the admin address is told to shut down. Then
// nothing new is accepted; requests and connections may end within the grace.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, shutdown := context.WithCancel(ctx)
	defer shutdown()
	// What goes on while connections drain: streams, renewals, the admin address.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, work := lifecycle.NewGroup(work)
	defer p.listeners.Close()

	admin := newAdmin(p.config, p.identity.ready, p.registry, shutdown)
	group.Go("admin", func() error { return served(admin.Serve(p.listeners.Admin)) })
	context.AfterFunc(work, func() { admin.Close() })
	group.Go("identity", func() error {
		p.identity.run(work)
		return nil
	})
	d, err := p.directions(work, group)
	if err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	defer d.control.close()
	group.Go("connections", func() error {
		defer stop()
		return d.run(ctx, work)
	})
	return group.Wait()
}

// directions are both ways through the proxy.
type directions struct {
	*Proxy
	control  *control
	inbound  *inbound
	outbound *outbound
}

func (p *Proxy) directions(ctx context.Context, group *lifecycle.Group) (*directions, error) {
	c, err := dialServices(p.config, p.metrics)
	if err != nil {
		return nil, err
	}
	otherwise, err := defaultServer(p.config.DefaultPolicy, p.config.ClusterNetworks)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	pool := newBuffers()
	toApp := &connector{config: p.config, identity: p.identity, metrics: p.metrics, direction: inboundDirection, timeout: p.config.InboundConnect}
	toPeers := &connector{config: p.config, identity: p.identity, metrics: p.metrics, direction: outboundDirection, timeout: p.config.OutboundConnect}
	d := &directions{Proxy: p, control: c, inbound: newInbound(p.config, p.identity, p.metrics, pool), outbound: newOutbound(p.config, p.listeners.Outbound, p.metrics, toPeers, pool)}
	d.inbound.ports = &cache[uint16, *port]{ctx: ctx, idle: p.config.InboundIdle, start: func(ctx context.Context, number uint16) *port {
		p := newPort(number, p.config, c, toApp)
		p.start(ctx, group, otherwise)
		return p
	}}
	d.outbound.targets = &cache[targetKey, *target]{ctx: ctx, idle: p.config.OutboundIdle, start: func(ctx context.Context, key targetKey) *target {
		t := &target{key: key, config: p.config, control: c, connect: toPeers, group: group}
		t.start(ctx)
		return t
	}}
	return d, nil
}

// run accepts, once there is an identity, until ctx ends, and then waits for
// what is under way, but not longer than the grace. Work ends nothing but itself
// early.
func (d *directions) run(ctx, work context.Context) error {
	select {
	case <-d.identity.ready:
	case <-ctx.Done():
		return nil
	case <-work.Done():
		return nil
	}
	for _, number := range d.config.InboundPorts {
		d.inbound.ports.acquire(number) // and never released
	}
	group, work := lifecycle.NewGroup(work)
	connections, cut := context.WithCancel(work)
	defer cut()
	for _, server := range []struct {
		*http.Server
		queue net.Listener
	}{{d.inbound.http, d.inbound.queue}, {d.outbound.http, d.outbound.queue}} {
		group.Go("HTTP", func() error { return served(server.Serve(server.queue)) })
	}
	var accepting sync.WaitGroup
	accept := func(name string, l net.Listener, serve func(context.Context, net.Conn) error) {
		accepting.Add(1)
		group.Go(name, func() error {
			defer accepting.Done()
			return d.accept(ctx, connections, group, name, l, serve)
		})
	}
	accept(inboundDirection, d.listeners.Inbound, d.inbound.serve)
	for _, l := range d.listeners.Outbound {
		accept(outboundDirection, l, d.outbound.serve)
	}
	select {
	case <-ctx.Done():
	case <-work.Done():
	}
	for _, l := range append([]net.Listener{d.listeners.Inbound}, d.listeners.Outbound...) {
		l.Close()
	}
	grace, cancel := context.WithTimeout(work, d.config.Grace)
	defer cancel()
	stopped := context.AfterFunc(grace, cut)
	defer stopped()
	accepting.Wait()
	// The servers end when their requests have; what they do not know of, bytes
	// and upgraded connections, is waited for by the group.
	_ = d.inbound.http.Shutdown(grace)
	_ = d.outbound.http.Shutdown(grace)
	d.inbound.http.Close()
	d.outbound.http.Close()
	return group.Wait()
}

// accept serves each connection until the listener is closed.
func (d *directions) accept(ctx, connections context.Context, group *lifecycle.Group, name string, l net.Listener, serve func(context.Context, net.Conn) error) error {
	for {
		raw, err := l.Accept()
		if ctx.Err() != nil || connections.Err() != nil {
			if err == nil {
				raw.Close()
			}
			return nil
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) || !temporary.Temporary() {
				return fmt.Errorf("%s: %w", name, err)
			}
			// Out of file descriptors, mostly: others may be closed soon.
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		group.Go(name+" connection", func() error {
			defer raw.Close()
			defer context.AfterFunc(connections, func() { raw.Close() })()
			if err := serve(connections, raw); err != nil {
				d.config.Log.Info("connection ended", "direction", name, "client", raw.RemoteAddr().String(), "reason", err)
			}
			return nil
		})
	}
}

// served is the error of a server that was not stopped.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
