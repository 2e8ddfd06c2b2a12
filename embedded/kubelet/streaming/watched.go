package streaming

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
)

// watched tells when the client of an upgraded connection has gone: the context
// of its request does not end then.
type watched struct {
	http.ResponseWriter
	gone func()
}

// Hijack gives the connection to who upgrades it.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn := &watchedConn{raw, w.gone}
	read, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	var reader io.Reader = conn
	if len(read) > 0 {
		reader = io.MultiReader(bytes.NewReader(read), conn)
	}
	return conn, bufio.NewReadWriter(bufio.NewReader(reader), buffered.Writer), nil
}

// watchedConn tells of its end: a peer that says goodbye has the connection closed
// without another read.
type watchedConn struct {
	net.Conn
	gone func()
}

// Read reads.
func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.gone()
	}
	return n, err
}

// Close closes the connection.
func (c *watchedConn) Close() error {
	c.gone()
	return c.Conn.Close()
}
