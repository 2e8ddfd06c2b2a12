//go:build !linux

package sandbox

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Sandbox cannot be had on this system.
type Sandbox struct{}

// Running cannot be had on this system.
type Running struct{ PID int }

// Main returns ErrUnsupported.
func Main() error { return ErrUnsupported }

// Start returns ErrUnsupported.
func Start(Config) (*Sandbox, error) { return nil, ErrUnsupported }

func (*Sandbox) PID() int                                     { return 0 }
func (*Sandbox) Done() <-chan struct{}                        { return nil }
func (*Sandbox) Err() error                                   { return ErrUnsupported }
func (*Sandbox) Close() error                                 { return nil }
func (*Sandbox) AddPod(context.Context, Pod) error            { return ErrUnsupported }
func (*Sandbox) RemovePod(context.Context, string) error      { return ErrUnsupported }
func (*Sandbox) SetService(context.Context, Service) error    { return ErrUnsupported }
func (*Sandbox) RemoveService(context.Context, string) error  { return ErrUnsupported }
func (*Running) Wait() Exit                                   { return Exit{} }
func (*Running) Signal(context.Context, syscall.Signal) error { return ErrUnsupported }
func (*Sandbox) Listen(context.Context, Place, netip.AddrPort) (net.Listener, error) {
	return nil, ErrUnsupported
}
func (*Sandbox) ListenPacket(context.Context, Place, netip.AddrPort) (net.PacketConn, error) {
	return nil, ErrUnsupported
}
func (*Sandbox) Run(context.Context, Process, *os.File, *os.File, *os.File) (*Running, error) {
	return nil, ErrUnsupported
}

func (*Sandbox) Dial(context.Context, Place, netip.AddrPort, time.Duration) (net.Conn, error) {
	return nil, ErrUnsupported
}
