package app

import (
	"context"
	"errors"
	"fmt"
	"github.com/linkerd-lite/linkerd-lite/internal/child"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// killDelay is how long COMMAND has to end after SIGTERM when the instance has failed.
const killDelay = 2 * time.Second

// apiEnv are the variables that tell COMMAND where what is served.
var apiEnv = map[string]string{
	"LINKERD_LITE_DESTINATION_ADDR":  "destination",
	"LINKERD_LITE_POLICY_ADDR":       "policy",
	"LINKERD_LITE_IDENTITY_ADDR":     "identity",
	"LINKERD_LITE_ADMIN_ADDR":        "admin",
	"LINKERD_LITE_SHIM_INBOUND_ADDR": "shim-inbound",
}

// runCommand runs COMMAND on our terminal, stops the instance when it has
// ended, and returns its exit code as an error. SIGINT is COMMAND's: a terminal
// sends it to both. SIGTERM is passed on.
func (u *up) runCommand(ctx context.Context) error {
	cmd := exec.Command(u.command[0], u.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = u.stdin, u.stdout, u.commandStderr
	cmd.Env = u.commandEnv()
	if path, err := child.Look(u.command[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	exited, err := child.Start(cmd, cmd.Start)
	if err != nil {
		return errors.Join(&exitError{code: exitNotFound, err: fmt.Errorf("starting COMMAND: %w", err)}, u.stopped())
	}
	forwarded := false
	for {
		select {
		case err := <-exited:
			if stopErr := u.stopped(); stopErr != nil {
				return stopErr
			}
			return commandResult(err)
		case failure := <-u.ended:
			u.end(cmd, exited)
			if failure == nil {
				failure = errors.New("stopped while COMMAND was running")
			}
			return failure
		case <-u.closed:
			u.end(cmd, exited)
			return u.unread()
		case sig := <-u.signals:
			switch {
			case sig == syscall.SIGINT:
			case forwarded:
				exitNow(exitSignal + number(sig))
			default:
				forwarded = true
				if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
					u.log.Warn("passing a signal on", "signal", sig, "error", err)
				}
			}
		}
	}
}

// end ends COMMAND and waits for it.
func (u *up) end(cmd *exec.Cmd, exited <-chan error) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(killDelay):
		_ = cmd.Process.Kill()
		<-exited
	}
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

func (u *up) commandEnv() []string {
	info := u.cluster.Info()
	set := map[string]string{
		"KUBECONFIG":   info.Kubeconfig,
		datadir.EnvVar: info.DataDir,
	}
	for name, listener := range apiEnv {
		if address, ok := info.Addresses[listener]; ok {
			set[name] = address
		}
	}
	if path := child.Path(); path != "" {
		set["PATH"] = path
	}
	var env []string
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); set[name] == "" {
			env = append(env, pair)
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

// checkCommand says that COMMAND cannot be started, before a cluster is.
func checkCommand(name string) error {
	if _, err := child.Look(name); err != nil {
		return &exitError{code: exitNotFound, err: fmt.Errorf("COMMAND: %w", err)}
	}
	return nil
}
