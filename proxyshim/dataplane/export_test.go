package dataplane

import (
	"net"
	"net/netip"
)

// KernelAddresses is kernelAddresses.
func KernelAddresses(conn net.Conn) (netip.Addr, netip.AddrPort, error) { return kernelAddresses(conn) }
