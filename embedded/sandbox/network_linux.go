package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ends are the addresses that each pod has at the ends of its links. Nobody else sees them.
type ends struct{ gateway, proxySelf, uplink netip.Addr }

// endsOf are those of an address's family. IPv6's are not link-local: programs would need a
// zone to answer.
func endsOf(addr netip.Addr) ends {
	prefix := "169.254.1."
	if addr.Is6() {
		prefix = "fd6c:6974:6500::"
	}
	return ends{netip.MustParseAddr(prefix + "1"), netip.MustParseAddr(prefix + "2"), netip.MustParseAddr(prefix + "3")}
}

// network is the sandbox's own network namespace and those of the pods.
type network struct {
	own *netlink.Handle
	// hosts are the addresses of this namespace, one of each family that there is.
	hosts []netip.Addr

	mu   sync.Mutex
	last int
	pods map[string]*podNetwork
}

// podNetwork has the namespaces of a pod; they last as long as their files are
// open or a process is in them.
type podNetwork struct {
	pod            Pod
	device         string // at the sandbox's end
	program, proxy *os.File
}

func newNetwork(s *setup) (*network, error) {
	own, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	n := &network{own: own, hosts: s.Hosts, pods: map[string]*podNetwork{}}
	if err := n.configure(true); err != nil {
		return nil, err
	}
	lo, err := loopback(own)
	if err != nil {
		return nil, err
	}
	for _, addr := range s.Hosts {
		if err := addAddress(own, lo, addr); err != nil {
			return nil, err
		}
	}
	for _, prefix := range s.Services {
		if !n.has(prefix.Addr()) {
			continue
		}
		err := own.RouteAdd(&netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: ipNet(prefix), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST,
		})
		if err != nil {
			return nil, fmt.Errorf("add local route to %s: %w", prefix, err)
		}
	}
	if err := n.routeOutside(lo); err != nil {
		return nil, err
	}
	return n, nil
}

// outsideTable has the route that pods' packets take to addresses that nobody has.
const outsideTable = 4140

// routeOutside leads such packets to where a rule refuses them: without a route the kernel says that
// only once a second, and connections wait in vain.
func (n *network) routeOutside(lo netlink.Link) error {
	everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if err := n.own.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(everywhere), Table: outsideTable}); err != nil {
		return fmt.Errorf("add route to the outside: %w", err)
	}
	// Not for what this namespace sends itself, and after all other routes.
	rule := netlink.NewRule()
	rule.Family, rule.IifName, rule.Invert, rule.Table, rule.Priority = unix.AF_INET, "lo", true, outsideTable, lastPriority
	if err := n.own.RuleAdd(rule); err != nil {
		return fmt.Errorf("add rule for the outside: %w", err)
	}
	return nil
}

// lastPriority is that of a routing rule after those that the kernel has.
const lastPriority = 40000

// has reports whether there is a network of the address's family.
func (n *network) has(addr netip.Addr) bool {
	return slices.ContainsFunc(n.hosts, func(host netip.Addr) bool { return host.Is4() == addr.Is4() })
}

// Settings of namespaces, below net.
var (
	// Those that forward lead connections on, of IPv4 also to their own loopback.
	forwardIPv4 = []string{
		"ipv4/ip_forward=1", "ipv4/conf/all/rp_filter=0", "ipv4/conf/default/rp_filter=0",
		"ipv4/conf/all/route_localnet=1", "ipv4/conf/default/route_localnet=1", "ipv4/ip_local_port_range=1024 65535", "ipv4/icmp_ratemask=0",
	}
	// That an address is of a local route is not enough to listen at it, unlike with IPv4.
	forwardIPv6 = []string{"ipv6/conf/all/forwarding=1", "ipv6/ip_nonlocal_bind=1"}
	// Devices have the addresses that they are given, at once, and no others.
	plainIPv6 = []string{
		"ipv6/conf/all/disable_ipv6=0", "ipv6/conf/default/disable_ipv6=0", "ipv6/conf/all/accept_dad=0", "ipv6/conf/default/accept_dad=0",
		"ipv6/conf/default/autoconf=0", "ipv6/conf/default/accept_ra=0", "ipv6/conf/default/addr_gen_mode=1",
	}
)

// configure makes the namespace of this thread one of pods.
func (n *network) configure(forwards bool) error {
	var settings []string
	if forwards {
		settings = forwardIPv4
	}
	if n.has(netip.IPv6Unspecified()) {
		if _, err := os.Stat("/proc/sys/net/ipv6/conf"); err != nil {
			return fmt.Errorf("look for net.ipv6.conf: %w", unix.EAFNOSUPPORT)
		}
		settings = slices.Concat(plainIPv6, settings)
		if forwards {
			settings = slices.Concat(settings, forwardIPv6)
		}
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("set net.%s: %w", strings.ReplaceAll(name, "/", "."), err)
		}
	}
	return nil
}

func loopback(h *netlink.Handle) (netlink.Link, error) {
	lo, err := h.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find the loopback interface: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return nil, fmt.Errorf("set the loopback interface up: %w", err)
	}
	return lo, nil
}

// add makes a pod's network, unless it is there.
func (n *network) add(pod Pod) (added bool, err error) {
	for _, addr := range pod.Addresses {
		if !n.has(addr) {
			return false, fmt.Errorf("pod address %s: there is no network of its family", addr)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods[pod.ID] != nil {
		return false, nil
	}
	n.last++
	p := &podNetwork{pod: pod, device: fmt.Sprintf("pod%d", n.last)}
	if err := n.build(p); err != nil {
		return false, errors.Join(fmt.Errorf("network of pod %s: %w", pod.ID, err), n.drop(p))
	}
	n.pods[pod.ID] = p
	return true, nil
}

func (n *network) build(p *podNetwork) (err error) {
	var program, proxy *netlink.Handle
	if p.program, program, err = n.newNamespace(false); err != nil {
		return err
	}
	defer program.Close()
	if p.pod.Redirect == nil {
		p.proxy = p.program
		return link{inside: program, namespace: p.program, outside: n.own, peer: p.device}.make(p.pod.Addresses, func(pod netip.Addr) linkEnds {
			return linkEnds{inside: pod, route: endsOf(pod).gateway}
		})
	}
	if p.proxy, proxy, err = n.newNamespace(true); err != nil {
		return err
	}
	defer proxy.Close()
	err = link{inside: proxy, namespace: p.proxy, outside: n.own, peer: p.device}.make(p.pod.Addresses, func(pod netip.Addr) linkEnds {
		return linkEnds{inside: endsOf(pod).proxySelf, route: endsOf(pod).uplink}
	})
	if err != nil {
		return err
	}
	err = link{inside: program, namespace: p.program, outside: proxy, peer: proxyDevice}.make(p.pod.Addresses, func(pod netip.Addr) linkEnds {
		return linkEnds{inside: pod, route: endsOf(pod).gateway, outside: endsOf(pod).gateway}
	})
	if err != nil {
		return err
	}
	for _, addr := range p.pod.Addresses {
		if err := redirect(p.proxy, proxy, addr, *p.pod.Redirect); err != nil {
			return err
		}
	}
	return nil
}

// Names of devices in a pod.
const (
	podDevice   = "eth0"
	proxyDevice = "app0"
)

// link is a pair of devices, from eth0 of a namespace to one nearer to the sandbox's own.
type link struct {
	inside    *netlink.Handle
	namespace *os.File // of inside
	outside   *netlink.Handle
	peer      string // the device outside
}

// linkEnds are the addresses of a link in one family.
type linkEnds struct {
	inside netip.Addr
	// route is a made-up address of the other end that everything is sent to.
	route netip.Addr
	// outside is invalid for a device without an address.
	outside netip.Addr
}

// make makes the devices. To the outside the pod's addresses are behind them.
func (l link) make(pod []netip.Addr, endsOf func(pod netip.Addr) linkEnds) error {
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: podDevice, PeerNamespace: netlink.NsFd(int(l.namespace.Fd()))}
	veth.Name = l.peer
	if err := l.outside.LinkAdd(veth); err != nil {
		return fmt.Errorf("add device %s: %w", l.peer, err)
	}
	out, err := up(l.outside, l.peer)
	if err != nil {
		return err
	}
	in, err := up(l.inside, podDevice)
	if err != nil {
		return err
	}
	for _, addr := range pod {
		if err := l.connect(in, out, addr, endsOf(addr)); err != nil {
			return err
		}
	}
	return nil
}

// connect gives the devices what they need for an address of the pod.
func (l link) connect(in, out netlink.Link, pod netip.Addr, ends linkEnds) error {
	if ends.outside.IsValid() {
		if err := addAddress(l.outside, out, ends.outside); err != nil {
			return err
		}
	}
	if err := addAddress(l.inside, in, ends.inside); err != nil {
		return err
	}
	if err := neighbour(l.inside, in, ends.route, out.Attrs().HardwareAddr); err != nil {
		return err
	}
	if err := l.inside.RouteAdd(&netlink.Route{LinkIndex: in.Attrs().Index, Gw: ends.route.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}); err != nil {
		return fmt.Errorf("add the default route: %w", err)
	}
	if err := neighbour(l.outside, out, pod, in.Attrs().HardwareAddr); err != nil {
		return err
	}
	if err := l.outside.RouteAdd(&netlink.Route{LinkIndex: out.Attrs().Index, Dst: host(pod), Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("add the route to pod %s: %w", pod, err)
	}
	return nil
}

func addAddress(h *netlink.Handle, device netlink.Link, addr netip.Addr) error {
	address := &netlink.Addr{IPNet: host(addr)}
	if addr.Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	if err := h.AddrAdd(device, address); err != nil {
		return fmt.Errorf("add address %s to %s: %w", addr, device.Attrs().Name, err)
	}
	return nil
}

func up(h *netlink.Handle, name string) (netlink.Link, error) {
	device, err := h.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", name, err)
	}
	if err := h.LinkSetUp(device); err != nil {
		return nil, fmt.Errorf("set device %s up: %w", name, err)
	}
	return device, nil
}

func neighbour(h *netlink.Handle, device netlink.Link, address netip.Addr, hardware net.HardwareAddr) error {
	err := h.NeighSet(&netlink.Neigh{
		LinkIndex: device.Attrs().Index, Family: nl.GetIPFamily(address.AsSlice()), State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: hardware,
	})
	if err != nil {
		return fmt.Errorf("add neighbour %s: %w", address, err)
	}
	return nil
}

// remove takes a pod's network away, and returns what it was.
func (n *network) remove(id string) (*Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[id]
	if p == nil {
		return nil, nil
	}
	delete(n.pods, id)
	return &p.pod, n.drop(p)
}

// drop takes away what there is of a pod's network.
func (n *network) drop(p *podNetwork) error {
	for _, file := range []*os.File{p.program, p.proxy} {
		if file != nil {
			file.Close()
		}
	}
	device, err := n.own.LinkByName(p.device)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := n.own.LinkDel(device); !errors.Is(err, unix.ENODEV) { // it goes with its other end
		return err
	}
	return nil
}

// enter takes the calling thread, which must be one of inThread, to a place.
func (n *network) enter(place Place) error {
	if place.Pod == "" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[place.Pod]
	if p == nil {
		return fmt.Errorf("pod %s has no network", place.Pod)
	}
	namespace := p.program
	if place.Side == ProxySide {
		namespace = p.proxy
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}

// newNamespace makes a network namespace, which may be one that forwards, with its loopback.
func (n *network) newNamespace(forwards bool) (*os.File, *netlink.Handle, error) {
	namespace, err := inThread(func() (*os.File, error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return nil, fmt.Errorf("make a network namespace: %w", err)
		}
		if err := n.configure(forwards); err != nil {
			return nil, err
		}
		return os.Open("/proc/thread-self/ns/net")
	})
	if err != nil {
		return nil, nil, err
	}
	handle, err := netlink.NewHandleAt(netns.NsHandle(namespace.Fd()), unix.NETLINK_ROUTE)
	if err == nil {
		if _, err = loopback(handle); err != nil {
			handle.Close()
		}
	}
	if err != nil {
		namespace.Close()
		return nil, nil, err
	}
	return namespace, handle, nil
}

func host(addr netip.Addr) *net.IPNet { return ipNet(netip.PrefixFrom(addr, addr.BitLen())) }

// ipNet is the prefix as netlink wants it.
func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
