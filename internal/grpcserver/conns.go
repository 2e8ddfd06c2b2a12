package grpcserver

import (
	"net"

	"github.com/linkerd-lite/linkerd-lite/internal/openconns"
)

// listener keeps its connections in a set, so that a stop can close also those
// that grpc-go has not set up yet.
type listener struct {
	net.Listener
	set *openconns.Set
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	setUserTimeout(raw)
	// One that comes too late is closed: grpc-go finds out when it reads.
	c, _ := l.set.Track(raw)
	return c, nil
}
