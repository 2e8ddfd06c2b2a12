package grpcserver

import (
	"net"
	"sync"
)

// connSet holds the open connections of a server, so that a stop can close
// also those that grpc-go has not set up yet.
type connSet struct {
	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

func newConnSet() *connSet { return &connSet{conns: map[*conn]struct{}{}} }

// listener returns l with its connections in the set.
func (s *connSet) listener(l net.Listener) net.Listener { return &listener{l, s} }

// add puts c in the set; once the set is closed it closes c instead.
func (s *connSet) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Conn.Close()
		return
	}
	s.conns[c] = struct{}{}
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// close closes all connections, present and future, at the bottom: TLS would
// first say farewell to peers that may not listen.
func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		bottom(c).Close()
	}
}

// bottom is the innermost connection of those that tell what they wrap.
func bottom(c net.Conn) net.Conn {
	for {
		outer, ok := c.(interface{ Unwrap() net.Conn })
		if !ok {
			return c
		}
		c = outer.Unwrap()
	}
}

type listener struct {
	net.Listener
	set *connSet
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	setUserTimeout(raw)
	c := &conn{raw, l.set}
	l.set.add(c)
	return c, nil
}

// conn leaves its set when it is closed.
type conn struct {
	net.Conn
	set *connSet
}

// Unwrap returns the connection as it was accepted.
func (c *conn) Unwrap() net.Conn { return c.Conn }

func (c *conn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}
