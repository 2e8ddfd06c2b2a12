package sandbox

import (
	"errors"
	"net/netip"
	"os"
)

// ErrForbidden says that the machine does not let this user make a sandbox.
var ErrForbidden = errors.New("this machine does not let you make a user and network namespace " +
	"(see user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, " +
	"or the seccomp profile of a container)")

// ErrUnsupported says that this system has no namespaces.
var ErrUnsupported = errors.New("processes of pods need Linux")

// ErrNoIPv6 says that the machine cannot give pods a network of IPv6.
var ErrNoIPv6 = errors.New("this machine has no IPv6 (see the kernel's parameter ipv6.disable)")

// Pod is the network of a pod.
type Pod struct {
	// ID names it in later calls.
	ID string
	// Addresses are the pod's, at most one of each family that the sandbox has.
	Addresses []netip.Addr
	// Redirect is nil for a pod without a proxy.
	Redirect *Redirect
}

// Redirect says which connections of a pod its proxy gets, as linkerd-init has it.
type Redirect struct {
	// Inbound and Outbound are the proxy's ports.
	Inbound, Outbound uint16
	// Own are ports at which the proxy answers itself.
	Own []uint16
	// SkipInbound and SkipOutbound are ports that pass it by, SkipSubnets
	// destinations.
	SkipInbound, SkipOutbound []PortRange
	SkipSubnets               []netip.Prefix
}

// PortRange is some ports, both ends included.
type PortRange struct{ First, Last uint16 }

// Service is the address of one port of a Service.
type Service struct {
	// ID names it in later calls.
	ID      string
	Address netip.AddrPort
	// UDP is false for TCP.
	UDP bool
	// Endpoints get the connections in turn. With none, they are refused.
	Endpoints []netip.AddrPort
}

// Side is a network namespace of a pod.
type Side string

// The sides of a pod. A pod without a proxy has one, which both mean.
const (
	ProgramSide Side = "program"
	ProxySide   Side = "proxy"
)

// Place is a network namespace: a pod's, or the sandbox's own if Pod is empty.
type Place struct {
	Pod  string
	Side Side
}

// Process is what is started in a pod.
type Process struct {
	Place
	// Args has the program, which is looked for in the Path that Env has, and its
	// arguments.
	Args, Env []string
	// Dir is the working directory; "" is the root.
	Dir string
	// Root is a directory with the program's files; "" are the machine's own.
	Root string
	// Scratch is a new directory for what the process writes there. It needs a Root.
	Scratch string
	// Mounts are put over these files, in this order.
	Mounts   []Mount
	Hostname string
	// Terminal says that the first of the files is a terminal, which the process controls.
	Terminal bool
	// Beside is a running process, whose files and process IDs this one shares.
	// Root, Mounts and Hostname are not looked at then.
	Beside int
}

// Mount is a file or directory of this machine at another path.
type Mount struct {
	// Source is "" for a new empty directory in memory.
	Source, Target string
	ReadOnly       bool
}

// Exit is how a process ended.
type Exit struct {
	Code int
	// Signal is 0 unless a signal ended it.
	Signal int
}

// Config is what a sandbox needs.
type Config struct {
	// Command runs a program that calls Main.
	Command []string
	// Hosts are the sandbox's own addresses, which pods reach this process at: one of each
	// family that there is to be.
	Hosts []netip.Addr
	// Services are ranges of addresses that are local, so that listeners can have them and
	// connections that nobody takes are refused.
	Services []netip.Prefix
	// Stderr gets what goes wrong where nobody can be told.
	Stderr *os.File
}
