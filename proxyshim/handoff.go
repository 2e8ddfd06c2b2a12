package proxyshim

import (
	"net"
	"sync"
)

// Handoff is a listener whose connections were accepted elsewhere: a server
// gets from it those of which it is already known what they are.
type Handoff struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewHandoff returns one that goes by the address.
func NewHandoff(addr net.Addr) *Handoff {
	return &Handoff{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Give hands c over. It returns false when nobody takes connections any more.
func (h *Handoff) Give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept waits for a connection.
func (h *Handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close is safe twice.
func (h *Handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is the address that the connections came to.
func (h *Handoff) Addr() net.Addr { return h.addr }
