package net

import (
	"encoding/binary"
	"net/netip"
)

// NewIPAddress is the wire form of a valid address.
func NewIPAddress(addr netip.Addr) *IPAddress {
	if addr.Is4() {
		b := addr.As4()
		return &IPAddress{Ip: &IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(b[:])}}
	}
	b := addr.As16()
	return &IPAddress{Ip: &IPAddress_Ipv6{Ipv6: &IPv6{First: binary.BigEndian.Uint64(b[:8]), Last: binary.BigEndian.Uint64(b[8:])}}}
}

// NewIPNetwork is the wire form of a range. Host bits are sent as they are (P107).
func NewIPNetwork(network netip.Prefix) *IPNetwork {
	return &IPNetwork{Ip: NewIPAddress(network.Addr()), PrefixLen: uint32(network.Bits())}
}

// Addr is the address that x stands for, the zero Addr if it has none.
func (x *IPAddress) Addr() netip.Addr {
	switch ip := x.GetIp().(type) {
	case *IPAddress_Ipv4:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], ip.Ipv4)
		return netip.AddrFrom4(b)
	case *IPAddress_Ipv6:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], ip.Ipv6.GetFirst())
		binary.BigEndian.PutUint64(b[8:], ip.Ipv6.GetLast())
		return netip.AddrFrom16(b)
	}
	return netip.Addr{}
}

// NewTcpAddress is the wire form of a valid address with a port.
func NewTcpAddress(addr netip.AddrPort) *TcpAddress {
	return &TcpAddress{Ip: NewIPAddress(addr.Addr()), Port: uint32(addr.Port())}
}

// AddrPort is the address that x stands for; ports beyond 65535 are cut.
func (x *TcpAddress) AddrPort() netip.AddrPort {
	return netip.AddrPortFrom(x.GetIp().Addr(), uint16(x.GetPort()))
}
