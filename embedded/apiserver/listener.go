package apiserver

import (
	"net"
	"sync"
)

// listener remembers its connections, so that those whose clients do not
// react to the end of the server can be closed.
type listener struct {
	net.Listener

	mu     sync.Mutex
	closed bool
	conns  map[*conn]struct{}
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, conns: map[*conn]struct{}{}}
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, listener: l}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// closeConnections closes what is still open.
func (l *listener) closeConnections() {
	l.mu.Lock()
	l.closed = true
	open := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

type conn struct {
	net.Conn
	listener *listener
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
