package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Command makes a command that runs in namespaces of its own, as root of the
// user namespace, which outside is the user that runs this program. The
// command has to call Enter, then Run. It is the first of its processes: it dies
// with this one, and all that it started dies with it, also what has gone into
// the background.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// A Go process cannot move into a user namespace itself: it has threads.
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}

// Start starts a command made by Command; ErrForbidden is among its errors.
func Start(cmd *exec.Cmd) error {
	err := cmd.Start()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EACCES) && cmd.Process == nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}

// Enter sets up the network of the namespace that this process is in:
//  1. The loopback interface is up.
//  2. All addresses of ranges are local to it, so that pods and services can
//     be listened on and dialled.
//  3. IPv6 has no address for a client to come from but ::1, which proxies let
//     pass every policy, and lets nobody listen on an address that is only
//     routed. So the last address of each range is one of the interface's, and
//     the kernel is told to allow the other.
//  4. A rule asks for the state of connections. That alone makes the kernel
//     track them, and proxies can then ask where a connection wanted to go.
//
// It also shows the namespace's processes in /proc, where the machine allows it.
func Enter(ranges []netip.Prefix) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return explain(fmt.Errorf("set the loopback interface up: %w", err))
	}
	for _, r := range ranges {
		route := netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: ipNet(r),
			Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST,
		}
		err := netlink.RouteReplace(&route)
		if r.Addr().Is6() && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV)) {
			continue // a machine without IPv6
		}
		if err != nil {
			return explain(fmt.Errorf("add local route to %s: %w", r, err))
		}
		if r.Addr().Is6() {
			if err := enterIPv6(lo, r); err != nil {
				return explain(err)
			}
		}
	}
	// A container engine that hides parts of /proc forbids a new one.
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err := track(); err != nil {
		return explain(fmt.Errorf("add the rule that turns connection tracking on: %w", err))
	}
	return nil
}

// nonlocalBind lets programs listen on addresses that are routed to this
// machine and are none of an interface's, as IPv4 does.
const nonlocalBind = "/proc/sys/net/ipv6/ip_nonlocal_bind"

// enterIPv6 makes the addresses of an IPv6 range usable to listen on and to
// come from.
func enterIPv6(lo netlink.Link, r netip.Prefix) error {
	last := r.Masked().Addr().As16()
	for bit := r.Bits(); bit < 128; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(netip.AddrFrom16(last), 128)), Flags: unix.IFA_F_NODAD}
	if err := netlink.AddrReplace(lo, address); err != nil {
		return fmt.Errorf("add address %s: %w", address.IPNet, err)
	}
	// Engines mount /proc/sys without the right to write. What is left is IPv4.
	if err := os.WriteFile(nonlocalBind, []byte("1"), 0); err != nil && !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("allow listening on IPv6 addresses of pods: %w", err)
	}
	return nil
}

// explain adds the likely cause of a missing permission: some systems let the
// namespace be made but give no rights in it.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}

// track adds "ct state new accept" to the output hook of both families.
func track() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "linkerd-lite"})
	chain := conn.AddChain(&nftables.Chain{
		Table: table, Name: "track", Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	})
	const register = 1
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: binaryutil.NativeEndian.PutUint32(0)},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}})
	return conn.Flush()
}

// Run runs a program, found as a shell would, as the first process of the
// sandbox does: it passes signals on to it and collects what others leave
// behind. It returns the program's exit status as a shell has it.
func Run(command []string) (int, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, fmt.Errorf("find COMMAND: %w", err)
	}
	// SIGINT is the program's: a terminal sends it to both.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	process, err := os.StartProcess(path, command, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, fmt.Errorf("start COMMAND: %w", err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	// Bare: this process has nothing to do but to wait, and ends with it.
	go func() {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, 0, nil)
			if pid == process.Pid || err != nil && err != syscall.EINTR {
				ended <- status
				return
			}
		}
	}()
	for {
		select {
		case status := <-ended:
			if status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return status.ExitStatus(), nil
		case s := <-signals:
			if s != syscall.SIGINT {
				_ = syscall.Kill(process.Pid, s.(syscall.Signal)) // it may have ended
			}
		}
	}
}

// ipNet is the prefix as netlink wants it.
func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
