//go:build !linux

package sandbox

import (
	"errors"
	"net/netip"
	"os/exec"
	"runtime"
)

// errNoLinux: network namespaces, conntrack and local routes are Linux's.
var errNoLinux = errors.New("a sandbox needs Linux, this is " + runtime.GOOS + ": run it in a container or virtual machine")

// Command makes a command that Start refuses.
func Command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// Start says that there is no sandbox on this system.
func Start(*exec.Cmd) error { return errNoLinux }

// Enter says that there is no sandbox on this system.
func Enter([]netip.Prefix) error { return errNoLinux }

// Run says that there is no sandbox on this system.
func Run([]string) (int, error) { return 0, errNoLinux }
