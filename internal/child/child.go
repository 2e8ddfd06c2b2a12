// Package child starts processes that do not outlive this one.
package child

import (
	"os/exec"
	"runtime"
)

// Start starts a process by start (such as cmd.Start) that ends when this
// one does, even if this one is killed (on Linux). The channel gets the result
// of waiting for it.
//
// The kernel takes the thread that starts a process for its parent. So one
// goroutine keeps its thread for itself from the start of the process to its end.
func Start(cmd *exec.Cmd, start func() error) (exited <-chan error, err error) {
	bindToParent(cmd)
	started, ended := make(chan error), make(chan error, 1)
	// Bare, as start returns on it, and all else that it does is to wait.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
