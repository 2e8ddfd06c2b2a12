package sandbox

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What keeps a machine from having a sandbox is told by the child's number of an error.
func TestRemoteErrors(t *testing.T) {
	for number, want := range map[syscall.Errno]error{unix.EPERM: ErrForbidden, unix.EACCES: ErrForbidden, unix.EAFNOSUPPORT: ErrNoIPv6, unix.ECONNREFUSED: unix.ECONNREFUSED} {
		if err := (response{Error: "what was tried: " + number.Error(), Errno: int(number)}).err(); !errors.Is(err, want) || !errors.Is(err, number) {
			t.Errorf("%v: %v; want %v", number, err, want)
		}
	}
}
