package sandbox

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is that of our rules in each network namespace.
const tableName = "linkerd-lite"

// match is a condition of a rule, or what it does in the end.
type match []expr.Any

func rule(matches ...match) []expr.Any {
	return slices.Concat(([]match)(matches)...)
}

func incoming(device string) match { return named(expr.MetaKeyIIFNAME, device) }
func outgoing(device string) match { return named(expr.MetaKeyOIFNAME, device) }

func named(key expr.MetaKey, device string) match {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, device)
	return match{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name}}
}

func protocol(number byte) match {
	return match{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}}}
}

// tableFamily is that of tables with rules for an address.
func tableFamily(addr netip.Addr) nftables.TableFamily {
	if addr.Is6() {
		return nftables.TableFamilyIPv6
	}
	return nftables.TableFamilyIPv4
}

// sourceOffset is where a header has the source; the destination follows.
func sourceOffset(family nftables.TableFamily) uint32 {
	if family == nftables.TableFamilyIPv6 {
		return 8
	}
	return 12
}

func toNetwork(prefix netip.Prefix) match {
	prefix = prefix.Masked()
	size := uint32(prefix.Addr().BitLen() / 8)
	return match{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset(tableFamily(prefix.Addr())) + size, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: ipNet(prefix).Mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: prefix.Addr().AsSlice()},
	}
}

func to(addr netip.Addr) match { return toNetwork(netip.PrefixFrom(addr, addr.BitLen())) }

// fromTo holds for connections whose source and destination, one after the other, are in a set.
func fromTo(set *nftables.Set) match {
	return match{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset(set.Table.Family), Len: set.KeyType.Bytes},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
	}
}

func toPort(ports PortRange) match {
	return match{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: binaryutil.BigEndian.PutUint16(ports.First), ToData: binaryutil.BigEndian.PutUint16(ports.Last)},
	}
}

// oneIn holds for one of n packets, in turn by chance.
func oneIn(n int) match {
	return match{
		&expr.Numgen{Register: 1, Modulus: uint32(n), Type: unix.NFT_NG_RANDOM},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func accept() match { return match{&expr.Verdict{Kind: expr.VerdictAccept}} }

func jump(chain string) match { return match{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}} }

// redirectTo leads to a port of this namespace; 0 is the same port.
func redirectTo(port uint16) match {
	if port == 0 {
		return match{&expr.Redir{}}
	}
	return match{&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(port)}, &expr.Redir{RegisterProtoMin: 1}}
}

// leadTo changes the destination.
func leadTo(at netip.AddrPort) match {
	return match{
		&expr.Immediate{Register: 1, Data: at.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(at.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(tableFamily(at.Addr())), RegAddrMin: 1, RegProtoMin: 2},
	}
}

// comeFrom changes the source.
func comeFrom(addr netip.Addr) match {
	return match{
		&expr.Immediate{Register: 1, Data: addr.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(tableFamily(addr)), RegAddrMin: 1},
	}
}

// unreachable says that there is no way to the destination (ICMP's code 0).
func unreachable() match { return match{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 0}} }

func masquerade() match { return match{&expr.Masq{}} }

// natChain is a chain that sees connections before or after they are routed.
func natChain(table *nftables.Table, name string, hook *nftables.ChainHook) *nftables.Chain {
	priority := nftables.ChainPriorityNATDest
	if *hook == *nftables.ChainHookPostrouting {
		priority = nftables.ChainPriorityNATSource
	}
	return &nftables.Chain{Table: table, Name: name, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: priority}
}
