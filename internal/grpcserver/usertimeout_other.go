//go:build !linux

package grpcserver

import "net"

// setUserTimeout does nothing: the option is Linux's.
func setUserTimeout(net.Conn) {}
