//go:build !linux

package app

// dropText is a matter of Linux.
func dropText() {}
