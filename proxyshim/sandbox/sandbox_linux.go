package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Command makes a command that runs in namespaces of its own, as root of the
// user namespace, which outside is the user that runs this program. The
// command has to call Enter. It dies with this process.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// A Go process cannot move into a user namespace itself: it has threads.
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
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
//  3. A rule asks for the state of connections. That alone makes the kernel
//     track them, and proxies can then ask where a connection wanted to go.
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
	}
	if err := track(); err != nil {
		return explain(fmt.Errorf("add the rule that turns connection tracking on: %w", err))
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

// Exec replaces this process by a program, found as a shell would.
func Exec(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("find COMMAND: %w", err)
	}
	if err := unix.Exec(path, command, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}

// ipNet is the prefix as netlink wants it.
func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
