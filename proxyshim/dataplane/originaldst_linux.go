package dataplane

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// originalDestination asks the kernel where the client of a connection wanted
// to go. It knows that of connections that it tracks.
func originalDestination(conn *net.TCPConn) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	// IPv4 clients of a listener of both families are asked about as IPv4's.
	isIPv4 := addrPort(conn.LocalAddr()).Addr().Is4()
	level := unix.IPPROTO_IPV6
	if isIPv4 {
		level = unix.IPPROTO_IP
	}
	// The answer is a sockaddr_in or a sockaddr_in6. This type begins with the
	// latter; the address of the former lies where its flow information is.
	var info *unix.IPv6MTUInfo
	var failure error
	if err := raw.Control(func(fd uintptr) {
		info, failure = unix.GetsockoptIPv6MTUInfo(int(fd), level, unix.SO_ORIGINAL_DST)
	}); err != nil {
		return netip.AddrPort{}, err
	}
	if failure != nil {
		return netip.AddrPort{}, fmt.Errorf("ask for the original destination: %w", failure)
	}
	var port [2]byte
	binary.NativeEndian.PutUint16(port[:], info.Addr.Port)
	addr := netip.AddrFrom16(info.Addr.Addr)
	if isIPv4 {
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], info.Addr.Flowinfo)
		addr = netip.AddrFrom4(b)
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(port[:])), nil
}
