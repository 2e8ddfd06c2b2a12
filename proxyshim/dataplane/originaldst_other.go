//go:build !linux

package dataplane

import (
	"errors"
	"net"
	"net/netip"
)

func originalDestination(*net.TCPConn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.New("only Linux knows where a connection was redirected from")
}
