package dataplane

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// countedConn counts what passes, and its end.
type countedConn struct {
	net.Conn
	read, written prometheus.Counter
	closed        func(errno string)
	errno         atomic.Pointer[string]
	once          sync.Once
}

// counted begins to count a connection under the labels.
func (m *metrics) counted(c net.Conn, labels prometheus.Labels) *countedConn {
	m.open.with(labels).Inc()
	open := m.openConnections.with(labels)
	open.Inc()
	return &countedConn{Conn: c, read: m.read.with(labels), written: m.written.with(labels), closed: func(errno string) {
		open.Dec()
		m.close.with(merged(labels, prometheus.Labels{"errno": errno})).Inc()
	}}
}

// Unwrap returns the connection below.
func (c *countedConn) Unwrap() net.Conn { return c.Conn }

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(float64(n))
	c.note(err)
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(float64(n))
	c.note(err)
	return n, err
}

func (c *countedConn) note(err error) {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		name := errno.Error()
		c.errno.Store(&name)
	}
}

// CloseWrite says that nothing more will be written.
func (c *countedConn) CloseWrite() error { return closeWrite(c.Conn) }

// Close counts once.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		errno := ""
		if e := c.errno.Load(); e != nil {
			errno = *e
		}
		c.closed(errno)
	})
	return c.Conn.Close()
}

// closeWrite ends one direction of a connection, or both if it cannot do less.
func closeWrite(c net.Conn) error {
	for {
		switch inner := c.(type) {
		case interface{ CloseWrite() error }:
			return inner.CloseWrite()
		case interface{ Unwrap() net.Conn }:
			c = inner.Unwrap()
		default:
			return c.Close()
		}
	}
}

// accepted is a connection that a listener took. It is found again in the
// context of its requests.
type accepted struct {
	net.Conn
	client   verdict.Client
	original netip.AddrPort
	// Of inbound connections:
	port *port
	// labels are those of the metrics of requests.
	labels prometheus.Labels
	// Of outbound connections:
	target *target
}

// Unwrap returns the connection below.
func (a *accepted) Unwrap() net.Conn { return a.Conn }

type acceptedKey struct{}

// withAccepted is http.Server's ConnContext.
func withAccepted(ctx context.Context, c net.Conn) context.Context {
	if closing, ok := c.(*closing); ok {
		c = closing.accepted
	}
	return context.WithValue(ctx, acceptedKey{}, c)
}

func acceptedOf(ctx context.Context) *accepted { return ctx.Value(acceptedKey{}).(*accepted) }

// remoteAccepted is withAccepted where connections are not redirected.
func remoteAccepted(ctx context.Context, c net.Conn) context.Context {
	return withAccepted(ctx, &accepted{Conn: c, client: verdict.Client{Addr: addrPort(c.RemoteAddr()).Addr()}})
}

// closing tells when a connection has been closed.
type closing struct {
	*accepted
	once sync.Once
	done chan struct{}
}

// Close also closes done.
func (c *closing) Close() error {
	err := c.accepted.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

type labelsKey struct{}

func withLabels(ctx context.Context, labels prometheus.Labels) context.Context {
	return context.WithValue(ctx, labelsKey{}, labels)
}

// labelsOf are those of a request's metrics.
func labelsOf(ctx context.Context) prometheus.Labels {
	return ctx.Value(labelsKey{}).(prometheus.Labels)
}
