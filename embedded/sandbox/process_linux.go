package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts a process and returns its number. It is the first of a PID
// namespace of its own, so that all that it starts ends with it.
func (c *child) start(p Process, files []*os.File) (int, error) {
	if len(p.Args) == 0 {
		return 0, errors.New("no program to run")
	}
	return inThread(func() (int, error) {
		if err := c.enter(p); err != nil {
			return 0, err
		}
		if p.Dir != "" {
			if err := os.Chdir(p.Dir); err != nil {
				return 0, err
			}
		}
		program, err := find(p.Args[0], p.Env)
		if err != nil {
			return 0, err
		}
		attributes := &syscall.ProcAttr{Env: p.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
		for _, file := range files {
			attributes.Files = append(attributes.Files, file.Fd())
		}
		if p.Terminal {
			attributes.Sys.Setctty, attributes.Sys.Ctty = true, 0
		}
		if p.Beside == 0 {
			attributes.Sys.Cloneflags = unix.CLONE_NEWPID
		}
		// Its end is not told before it is known.
		c.mu.Lock()
		defer c.mu.Unlock()
		pid, err := syscall.ForkExec(program, p.Args, attributes)
		if err != nil {
			return 0, fmt.Errorf("start %s: %w", program, err)
		}
		c.running[pid] = true
		return pid, nil
	})
}

// enter takes the thread to where a process is to be started.
func (c *child) enter(p Process) error {
	if err := c.network.enter(p.Place); err != nil {
		return err
	}
	if p.Beside != 0 {
		return join(p.Beside)
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	if p.Hostname != "" {
		if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
			return fmt.Errorf("set the host name: %w", err)
		}
	}
	if p.Root != "" {
		root, err := overlay(p.Root, p.Scratch)
		if err != nil {
			return err
		}
		return changeRoot(root, p.Mounts)
	}
	for _, mount := range p.Mounts {
		if err := mount.make("/", createAside); err != nil {
			return err
		}
	}
	return nil
}

// join takes the thread to the namespaces of a running process, and its next child
// to that process's IDs.
func join(pid int) error {
	directory := "/proc/" + strconv.Itoa(pid)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	var files []*os.File
	defer func() { closeAll(files) }()
	for _, name := range []string{"ipc", "uts", "pid_for_children", "mnt"} {
		file, err := os.Open(directory + "/ns/" + name)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	for _, file := range files {
		if err := unix.Setns(int(file.Fd()), 0); err != nil {
			return fmt.Errorf("enter %s: %w", file.Name(), err)
		}
	}
	return nil
}

// find looks for a program as a shell does, with the PATH of env.
func find(program string, env []string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = value
		}
	}
	for _, directory := range strings.Split(path, ":") {
		if directory == "" {
			directory = "."
		}
		candidate := directory + "/" + program
		if found, err := exec.LookPath(candidate); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: %w in %s", program, exec.ErrNotFound, path)
}
