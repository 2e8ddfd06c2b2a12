package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/spf13/pflag"
)

// listenerSpec is one address that the program can listen on.
type listenerSpec struct {
	// name is that in run.json; the flag is --<name>-addr.
	name string
	// address is the default.
	address string
	usage   string
	// open says that the address may be one that others can reach: what is
	// served there asks for certificates.
	open bool
}

// listenerSpecs are all addresses. Proxies expect the ports of the three APIs
// and of the direct path; the others are found in run.json and the kubeconfig.
var listenerSpecs = []listenerSpec{
	{name: "api", address: "127.0.0.1:0", usage: "address of the Kubernetes API server", open: true},
	{name: "webhook", address: "127.0.0.1:0", usage: "address of the admission webhooks"},
	{name: "destination", address: "127.0.0.1:8086", usage: "address of the destination API", open: true},
	{name: "policy", address: "127.0.0.1:8090", usage: "address of the policy API", open: true},
	{name: "identity", address: "127.0.0.1:8080", usage: "address of the identity API", open: true},
	{name: "shim-inbound", address: "127.0.0.1:4143", usage: "address of the control plane's inbound proxy port", open: true},
	{name: "admin", address: "127.0.0.1:9990", usage: "address of /live, /ready and /metrics"},
}

// addressOptions are the flags --*-addr and --random-ports.
type addressOptions struct {
	addresses map[string]*string
	random    bool
}

func (o *addressOptions) addFlags(flags *pflag.FlagSet) {
	o.addresses = map[string]*string{}
	for _, spec := range listenerSpecs {
		o.addresses[spec.name] = flags.String(spec.name+"-addr", spec.address, spec.usage)
	}
	flags.BoolVar(&o.random, "random-ports", false, "listen on free ports everywhere, for parallel runs")
}

// listeners are bound sockets, by the name of their spec.
type listeners map[string]net.Listener

// bind binds the named addresses, or none of them.
func (o *addressOptions) bind(names ...string) (listeners, error) {
	bound := listeners{}
	for _, spec := range listenerSpecs {
		for _, name := range names {
			if name != spec.name {
				continue
			}
			l, err := spec.bind(*o.addresses[name], o.random)
			if err != nil {
				bound.close()
				return nil, err
			}
			bound[name] = l
		}
	}
	return bound, nil
}

func (s listenerSpec) bind(address string, random bool) (net.Listener, error) {
	flag := fmt.Sprintf("--%s-addr=%s", s.name, address)
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
