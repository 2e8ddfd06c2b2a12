package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
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

// bind binds the named addresses, or none of them.
func (a *Addresses) bind(names ...string) (listeners, error) {
	bound := listeners{}
	for _, spec := range ListenerSpecs() {
		for _, name := range names {
			if name != spec.Name {
				continue
			}
			l, err := spec.bind(a.ByName[name], a.Random)
			if err != nil {
				bound.close()
				return nil, err
			}
			bound[name] = l
		}
	}
	return bound, nil
}

func (s ListenerSpec) bind(address string, random bool) (net.Listener, error) {
	flag := fmt.Sprintf("--%s-addr=%s", s.Name, address)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if random {
		port = "0"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("%s: the host must be an IP address", flag)
	}
	if !s.open && !ip.IsLoopback() {
		return nil, fmt.Errorf("%s: only loopback addresses are possible here, as nothing asks for a certificate", flag)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		holder := ""
		if who := portHolder(port); who != "" {
			holder = " by " + who
		}
		return nil, fmt.Errorf("%s: the port is in use%s; choose another, or use --random-ports", flag, holder)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
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
