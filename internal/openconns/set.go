// Package openconns remembers a server's connections, so that a stop can close those whose clients do not react.
package openconns

import (
	"net"
	"sync"
)

// Set holds open connections. Its zero value is empty. It is safe for use by
// several goroutines.
type Set struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Add puts a connection in the set. Once the set is closed it closes the
// connection instead and returns false.
func (s *Set) Add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		Bottom(c).Close()
		return false
	}
	if s.open == nil {
		s.open = map[net.Conn]struct{}{}
	}
	s.open[c] = struct{}{}
	return true
}

// Remove forgets a connection.
func (s *Set) Remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Close closes all connections, present and future, at the bottom: TLS would
// first say farewell to peers that may not listen.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		Bottom(c).Close()
	}
}

// Track puts a connection in the set that leaves it when it is closed. It
// returns false, as Add does, if the set is closed.
func (s *Set) Track(raw net.Conn) (net.Conn, bool) {
	c := &conn{raw, s}
	return c, s.Add(c)
}

type conn struct {
	net.Conn
	set *Set
}

// Unwrap returns the connection as it was accepted.
func (c *conn) Unwrap() net.Conn { return c.Conn }

// Close also takes the connection out of its set.
func (c *conn) Close() error {
	c.set.Remove(c)
	return c.Conn.Close()
}

// Bottom is the innermost connection of those that tell what they wrap.
func Bottom(c net.Conn) net.Conn {
	for {
		outer, ok := c.(interface{ Unwrap() net.Conn })
		if !ok {
			return c
		}
		c = outer.Unwrap()
	}
}
