package apiserver

import (
	"net"
	"sync"
)

// listener remembers its connections, so that those whose clients do not
// react to the end of the server can be closed. It reports the end of the
// socket only once the server has closed it: the server panics otherwise.
type listener struct {
	net.Listener
	once     sync.Once
	released chan struct{}

	mu     sync.Mutex
	closed bool
	conns  map[*conn]struct{}
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, released: make(chan struct{}), conns: map[*conn]struct{}{}}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.released) })
	return l.Listener.Close()
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		<-l.released
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
