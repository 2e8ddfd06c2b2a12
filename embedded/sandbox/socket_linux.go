package sandbox

import (
	"context"
	"net"
	"os"
	"time"
)

// open makes a socket at a place and returns it as a file.
func (c *child) open(s socket) (*os.File, error) {
	return inThread(func() (*os.File, error) {
		if err := c.network.enter(s.Place); err != nil {
			return nil, err
		}
		filer, closer, err := s.open()
		if err != nil {
			return nil, err
		}
		defer closer()
		return filer.File()
	})
}

type filer interface{ File() (*os.File, error) }

func (s socket) open() (filer, func() error, error) {
	switch {
	case s.Listen && s.Network == "udp":
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.Address))
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	case s.Listen:
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(s.Address))
		if err != nil {
			return nil, nil, err
		}
		return l, l.Close, nil
	}
	// Without a second attempt by another family, which would be made by another thread.
	dialer := net.Dialer{Timeout: time.Duration(s.TimeoutMs) * time.Millisecond, FallbackDelay: -1}
	c, err := dialer.DialContext(context.Background(), "tcp", s.Address.String())
	if err != nil {
		return nil, nil, err
	}
	return c.(*net.TCPConn), c.Close, nil
}
