//go:build !linux

package memory

// dropText is a matter of Linux.
func dropText() {}
