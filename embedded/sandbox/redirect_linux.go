package sandbox

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// redirect gives the connections of a pod to the proxy in a namespace, by the
// rules of linkerd-init. The first rule that fits decides.
//
//	inbound                       outbound
//	ports to skip: pass           to this end of the link: the proxy itself
//	its own ports: as they are    ports and networks to skip: pass
//	others: to the inbound port   others: to the outbound port on loopback
//
// A packet that came from elsewhere cannot be led to ::1 by its rule alone: the kernel looks
// for a loopback address of IPv6 only at the device that the packet came by. So that device
// gets a local route to it. What others send to ::1 is still dropped, as that is before rules.
func redirect(namespace *os.File, proxy *netlink.Handle, pod netip.Addr, r Redirect) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(namespace.Fd())))
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if pod.Is6() {
		loopback = netip.IPv6Loopback()
		app, err := proxy.LinkByName(proxyDevice)
		if err != nil {
			return fmt.Errorf("find device %s: %w", proxyDevice, err)
		}
		if err := proxy.RouteAdd(&netlink.Route{LinkIndex: app.Attrs().Index, Dst: host(loopback), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL}); err != nil {
			return fmt.Errorf("add local route to %s: %w", loopback, err)
		}
	}
	table := conn.AddTable(&nftables.Table{Family: tableFamily(pod), Name: tableName})
	before := conn.AddChain(natChain(table, "before", nftables.ChainHookPrerouting))
	after := conn.AddChain(natChain(table, "after", nftables.ChainHookPostrouting))
	add := func(chain *nftables.Chain, matches ...match) {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule(matches...)})
	}
	inbound, outbound, tcp := incoming(podDevice), incoming(proxyDevice), protocol(unix.IPPROTO_TCP)
	for _, ports := range r.SkipInbound {
		add(before, inbound, tcp, toPort(ports), accept())
	}
	for _, port := range r.Own {
		add(before, inbound, tcp, toPort(PortRange{port, port}), redirectTo(0))
	}
	add(before, inbound, tcp, redirectTo(r.Inbound))

	add(before, outbound, to(endsOf(pod).gateway), accept())
	for _, subnet := range r.SkipSubnets {
		if subnet.Addr().Is4() == pod.Is4() {
			add(before, outbound, tcp, toNetwork(subnet), accept())
		}
	}
	for _, ports := range r.SkipOutbound {
		add(before, outbound, tcp, toPort(ports), accept())
	}
	add(before, outbound, tcp, leadTo(netip.AddrPortFrom(loopback, r.Outbound)))

	add(after, outgoing(podDevice), comeFrom(pod))
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("add rules that redirect to the proxy: %w", err)
	}
	return nil
}
