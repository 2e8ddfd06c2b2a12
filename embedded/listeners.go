package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// ListenerSpec is one address that a cluster can listen on.
type ListenerSpec struct {
	// Name is that in run.json; the flag is --<name>-addr.
	Name string
	// Address is the default.
	Address string
	Usage   string
	// open says that the address may be one that others can reach: what is
	// served there asks for certificates.
	open bool
}

// ListenerSpecs are all addresses. Proxies expect the ports of the three APIs
// and of the direct path; the others are found in run.json and the kubeconfig.
func ListenerSpecs() []ListenerSpec {
	return []ListenerSpec{
		{Name: "api", Address: "127.0.0.1:0", Usage: "address of the Kubernetes API server", open: true},
		{Name: "webhook", Address: "127.0.0.1:0", Usage: "address of the admission webhooks"},
		{Name: "destination", Address: "127.0.0.1:8086", Usage: "address of the destination API", open: true},
		{Name: "policy", Address: "127.0.0.1:8090", Usage: "address of the policy API", open: true},
		{Name: "identity", Address: "127.0.0.1:8080", Usage: "address of the identity API", open: true},
		{Name: "shim-inbound", Address: "127.0.0.1:4143", Usage: "address of the control plane's inbound proxy port", open: true},
		{Name: "admin", Address: "127.0.0.1:9990", Usage: "address of /live, /ready and /metrics"},
	}
}

// Addresses say where to listen.
type Addresses struct {
	// ByName has an IP:PORT for the name of each ListenerSpec.
	ByName map[string]string
	// Random takes free ports everywhere, for parallel runs.
	Random bool
}

// DefaultAddresses are the ports that proxies expect, on loopback.
func DefaultAddresses() Addresses {
	addresses := Addresses{ByName: map[string]string{}}
	for _, spec := range ListenerSpecs() {
		addresses.ByName[spec.Name] = spec.Address
	}
	return addresses
}

// listeners are bound sockets, by the name of their spec.
type listeners map[string]net.Listener

// bind binds the named addresses, or none of them. Where any port will do,
// that in before is taken if it is free.
func (a *Addresses) bind(before map[string]uint16, names ...string) (listeners, error) {
	bound := listeners{}
	for _, spec := range ListenerSpecs() {
		for _, name := range names {
			if name != spec.Name {
				continue
			}
			l, err := spec.bind(a.ByName[name], a.Random, before[name])
			if err != nil {
				bound.close()
				return nil, err
			}
			bound[name] = l
		}
	}
	return bound, nil
}

// Check says what is wrong with an address, without listening on any.
func (a *Addresses) Check() error {
	for _, spec := range ListenerSpecs() {
		if _, err := spec.parse(a.ByName[spec.Name]); err != nil {
			return err
		}
	}
	return nil
}

// flag is the address as it is given on a command line.
func (s ListenerSpec) flag(address string) string {
	return fmt.Sprintf("--%s-addr=%s", s.Name, address)
}

func (s ListenerSpec) parse(address string) (netip.AddrPort, error) {
	at := address
	if port, ok := strings.CutPrefix(at, "localhost:"); ok {
		at = "127.0.0.1:" + port
	}
	parsed, err := netip.ParseAddrPort(at)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s: must be IP:PORT, such as %s or [::1]:0", s.flag(address), s.Address)
	}
	if !s.open && !parsed.Addr().IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("%s: only loopback addresses are possible here, as nothing asks for a certificate", s.flag(address))
	}
	return parsed, nil
}

// bind listens on an address. Where a default is on a loopback address that
// this machine does not have, it takes that of the other family.
func (s ListenerSpec) bind(address string, random bool, before uint16) (net.Listener, error) {
	at, err := s.parse(address)
	if err != nil {
		return nil, err
	}
	if random {
		at = netip.AddrPortFrom(at.Addr(), 0)
	}
	if at.Port() == 0 && before != 0 {
		if l, err := net.Listen("tcp", netip.AddrPortFrom(at.Addr(), before).String()); err == nil {
			return l, nil
		}
	}
	l, err := net.Listen("tcp", at.String())
	if errors.Is(err, syscall.EADDRNOTAVAIL) && address == s.Address {
		at = netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
		l, err = net.Listen("tcp", at.String())
	}
	flag := s.flag(address)
	if errors.Is(err, syscall.EADDRINUSE) {
		holder := ""
		if who := portHolder(strconv.Itoa(int(at.Port()))); who != "" {
			holder = " by " + who
		}
		return nil, fmt.Errorf("%s: the port is in use%s; choose another, or use --random-ports", flag, holder)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// doors puts a door before each of the named listeners. The function refuses at
// all of them until they are opened or its context ends.
func (l listeners) doors(names ...string) func(context.Context) error {
	var doors []*door
	for _, name := range names {
		if tcp, ok := l[name].(*net.TCPListener); ok {
			d := newDoor(tcp)
			l[name], doors = d, append(doors, d)
		}
	}
	return func(ctx context.Context) error {
		group, ctx := lifecycle.NewGroup(ctx)
		for _, d := range doors {
			group.Go("door at "+d.Addr().String(), func() error { return d.refuse(ctx) })
		}
		return group.Wait()
	}
}

// close closes all; those that were closed already do no harm.
func (l listeners) close() {
	for _, listener := range l {
		listener.Close()
	}
}

// addresses are the bound addresses by name.
func (l listeners) addresses() map[string]string {
	addresses := make(map[string]string, len(l))
	for name, listener := range l {
		addresses[name] = listener.Addr().String()
	}
	return addresses
}
