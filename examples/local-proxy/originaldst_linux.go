package main

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// originalDestination is where the client of an accepted connection wanted to
// go. The kernel knows it of connections that it tracks.
func originalDestination(conn *net.TCPConn) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var info *unix.IPv6Mreq // as long as the sockaddr_in that the option returns
	var failure error
	if err := raw.Control(func(fd uintptr) {
		info, failure = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST)
	}); err != nil {
		return netip.AddrPort{}, err
	}
	if failure != nil {
		return netip.AddrPort{}, failure
	}
	a := info.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), binary.BigEndian.Uint16(a[2:4])), nil
}
