package apiserver

import (
	"net"
	"sync"

	"github.com/linkerd-lite/linkerd-lite/internal/openconns"
)

// listener remembers its connections, so that those whose clients do not
// react to the end of the server can be closed. It reports the end of the
// socket only once the server has closed it: the server panics otherwise.
type listener struct {
	net.Listener
	once     sync.Once
	released chan struct{}
	conns    openconns.Set
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, released: make(chan struct{})}
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
	c, open := l.conns.Track(raw)
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
