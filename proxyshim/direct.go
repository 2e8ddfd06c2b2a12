package proxyshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/openconns"
)

// direct serves the direct path: what reaches a proxy's inbound port itself.
// A connection takes these steps, all within handshakeTimeout:
//  1. Its first bytes are a ClientHello, or it is refused.
//  2. TLS is terminated; the direct path's protocol and a client certificate
//     are mandatory.
//  3. Its transport header names the port of the service that it is handed to.
type direct struct {
	termination
	handoffs map[uint16]*Handoff
}

// run accepts until ctx ends or a listener breaks, and closes the listeners.
func (d *direct) run(ctx context.Context, listeners []net.Listener) error {
	group, ctx := lifecycle.NewGroup(ctx)
	// Connections whose steps are not done.
	var open openconns.Set
	stop := context.AfterFunc(ctx, func() {
		for _, l := range listeners {
			l.Close()
		}
		open.Close()
	})
	defer stop()
	for _, l := range listeners {
		group.Go("direct connections at "+l.Addr().String(), func() error {
			accept := newListener(l)
			for {
				c, err := accept.Accept()
				if err != nil {
					if ctx.Err() != nil {
						return nil
					}
					var temporary interface{ Temporary() bool }
					if errors.As(err, &temporary) && temporary.Temporary() {
						// Out of file descriptors, mostly: others may be closed soon.
						select {
						case <-time.After(50 * time.Millisecond):
						case <-ctx.Done():
						}
						continue
					}
					return fmt.Errorf("accept on %s: %w", l.Addr(), err)
				}
				group.Go("direct connection", func() error {
					if open.Add(c) {
						d.serve(c.(*conn))
					}
					open.Remove(c)
					return nil
				})
			}
		})
	}
	return group.Wait()
}

// serve takes one connection through the steps.
func (d *direct) serve(c *conn) {
	_ = c.SetDeadline(time.Now().Add(d.shim.timeout))
	err := d.handle(c)
	if err == nil {
		return
	}
	c.Close()
	if err != io.EOF {
		_ = d.shim.refused(d.shim.config.InboundPort, c, err)
	}
}

func (d *direct) handle(c *conn) error {
	peeked, kind, err := peek(c)
	if err != nil {
		return err
	}
	switch kind {
	case Plaintext:
		return refuse(reasonDirect, "proxies speak TLS there; the ports of the APIs take plaintext from loopback")
	case ClientHello:
	default:
		return refuse(reasonProtocol, "the connection begins with %q", peeked.peeked)
	}
	conn, err := d.secure(peeked, d.shim.directTLS)
	if err != nil {
		return err
	}
	header, err := ReadHeader(conn)
	if errors.Is(err, errHeaderTooLarge) {
		return refuse(reasonHeaderSize, "%v", err)
	}
	if err != nil {
		return refusalOf(err, reasonHeader)
	}
	state := conn.ConnectionState()
	target := d.service(state.ServerName)
	for _, s := range d.services {
		// Two services may go by one server name.
		if s.Port == header.Port && s.ServerName == target.ServerName {
			target = s
		}
	}
	switch {
	case header.Name != "":
		return refuse(reasonTarget, "%q would need a gateway", header.Name)
	case target.Port != header.Port:
		return refuse(reasonTarget, "%s does not serve port %d", target.ServerName, header.Port)
	case header.Protocol == HTTP1:
		return refuse(reasonTarget, "port %d does not speak HTTP/1", header.Port)
	}
	info := d.shim.authInfo(target, c, &state)
	c.opened(info.series)
	d.shim.metrics.header(header, info)
	_ = c.SetDeadline(time.Time{})
	if !d.handoffs[target.Port].Give(&securedConn{conn, c, info}) {
		c.Close()
	}
	return nil
}
