package dataplane

import (
	"fmt"
	"net"
	"net/netip"
)

// kernelAddresses is Config.Addresses where connections are redirected.
func kernelAddresses(conn net.Conn) (client netip.Addr, original netip.AddrPort, err error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return client, original, fmt.Errorf("a connection of type %T", conn)
	}
	if original, err = originalDestination(tcp); err != nil {
		return client, original, err
	}
	return addrPort(conn.RemoteAddr()).Addr(), netip.AddrPortFrom(original.Addr().Unmap(), original.Port()), nil
}

// addrPort is the address of a TCP connection's end.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
