//go:build !linux

package main

import (
	"errors"
	"net"
	"net/netip"
)

func originalDestination(*net.TCPConn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.New("only Linux knows it")
}
