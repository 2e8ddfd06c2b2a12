package app

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// startChild starts a process by start (such as cmd.Start) that ends when this
// one does, even if this one is killed (on Linux). The channel gets the result
// of waiting for it.
//
// The kernel takes the thread that starts a process for its parent. So one
// goroutine keeps its thread for itself from the start of the process to its end.
func startChild(cmd *exec.Cmd, start func() error) (exited <-chan error, err error) {
	bindToParent(cmd)
	started, ended := make(chan error), make(chan error, 1)
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

// commandResult makes the end of a process our own: its exit code, or 128+n if
// signal n ended it.
func commandResult(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("waiting for COMMAND: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exitError{code: exitSignal + int(status.Signal())}
	}
	return &exitError{code: exit.ExitCode()}
}
