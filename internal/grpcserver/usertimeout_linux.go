package grpcserver

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkerd-lite/linkerd-lite/internal/openconns"
)

// userTimeout is how long sent data may stay unacknowledged before the kernel
// gives a connection up. grpc-go sets the same 20 s, but only on a bare
// TCPConn; without it a peer that is gone costs its buffers for a quarter of
// an hour.
const userTimeout = 20 * time.Second

func setUserTimeout(c net.Conn) {
	tcp, ok := openconns.Bottom(c).(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	// A connection that does not take the option works as well without it.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
}
