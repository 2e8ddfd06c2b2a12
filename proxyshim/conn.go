package proxyshim

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc/credentials"
)

// listener accepts connections of one port.
type listener struct {
	net.Listener
	// plaintext says whether this machine's clients may speak plaintext: never
	// on a listener that others can reach.
	plaintext bool
}

func newListener(l net.Listener) *listener {
	return &listener{l, isLoopback(l.Addr())}
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: raw, plaintext: l.plaintext && isLoopback(raw.RemoteAddr())}, nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// conn is a connection as it was accepted. It counts bytes once it is known
// whose they are.
type conn struct {
	net.Conn
	plaintext bool
	// read and written count until the connection has series.
	series        atomic.Pointer[connSeries]
	read, written atomic.Int64
	errno         atomic.Pointer[string]
	closeOnce     sync.Once
	closeErr      error
}

// Unwrap returns the connection as the system gave it.
func (c *conn) Unwrap() net.Conn { return c.Conn }

// opened begins to count the connection in s.
func (c *conn) opened(s *connSeries) {
	s.open.Inc()
	s.openConnections.Inc()
	c.series.Store(s)
	s.readBytes.Add(float64(c.read.Swap(0)))
	s.writeBytes.Add(float64(c.written.Swap(0)))
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if s := c.series.Load(); s != nil {
		s.readBytes.Add(float64(n))
	} else {
		c.read.Add(int64(n))
	}
	c.note(err)
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if s := c.series.Load(); s != nil {
		s.writeBytes.Add(float64(n))
	} else {
		c.written.Add(int64(n))
	}
	c.note(err)
	return n, err
}

// note keeps the error that the connection will be said to have ended with.
func (c *conn) note(err error) {
	if err == nil {
		return
	}
	for errno, name := range map[syscall.Errno]string{
		syscall.ECONNRESET: "ECONNRESET", syscall.EPIPE: "EPIPE", syscall.ETIMEDOUT: "ETIMEDOUT",
	} {
		if errors.Is(err, errno) {
			c.errno.Store(&name)
		}
	}
}

func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		if s := c.series.Load(); s != nil {
			errno := ""
			if e := c.errno.Load(); e != nil {
				errno = *e
			}
			s.openConnections.Dec()
			s.closed(errno)
		}
		c.closeErr = c.Conn.Close()
	})
	return c.closeErr
}

// accepted finds the conn below what servers wrap around it.
func accepted(c net.Conn) (*conn, bool) {
	for {
		switch inner := c.(type) {
		case *conn:
			return inner, true
		case interface{ Unwrap() net.Conn }:
			c = inner.Unwrap()
		default:
			return nil, false
		}
	}
}

// peekedConn gives back bytes that detection has read. It also carries what
// the callbacks of a TLS handshake find out about it.
type peekedConn struct {
	net.Conn
	peeked []byte
	// fault is set when the handshake is about to fail for a known reason.
	fault *refusal
}

// Unread is c as it was before b was read from it.
func Unread(c net.Conn, b []byte) net.Conn { return &peekedConn{Conn: c, peeked: b} }

// Unwrap returns the connection below, whose next bytes are not the next.
func (c *peekedConn) Unwrap() net.Conn { return c.Conn }

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.peeked) > 0 {
		n := copy(p, c.peeked)
		c.peeked = c.peeked[n:]
		if len(c.peeked) == 0 {
			c.peeked = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// AuthInfo is who is at the other end of a connection.
type AuthInfo struct {
	credentials.CommonAuthInfo
	// TLS is false for plaintext from this machine.
	TLS bool
	// ClientID is the client's identity, empty if it showed none.
	ClientID string
	series   *connSeries
}

// AuthType is "tls" or "plaintext".
func (i *AuthInfo) AuthType() string {
	if i.TLS {
		return "tls"
	}
	return "plaintext"
}

// securedConn is a connection of the direct path: terminated, its header
// read, ready for a service.
type securedConn struct {
	*tls.Conn
	raw  *conn
	info *AuthInfo
}

// Unwrap returns the connection as it was accepted.
func (c *securedConn) Unwrap() net.Conn { return c.raw }
