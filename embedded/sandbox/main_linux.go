package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// child is the first process of a sandbox.
type child struct {
	conn    *conn
	network *network
	// services has those of each family that there is.
	services map[nftables.TableFamily]*services

	mu sync.Mutex
	// running are its processes, by their number.
	running map[int]bool
}

// Main is the program of the child. It returns when its parent is gone or has
// closed the sandbox; the process should end then.
func Main() error {
	debug.SetGCPercent(25) // it holds little, for as long as pods run
	c, err := newConn(os.NewFile(socketFD, "parent"))
	if err != nil {
		return err
	}
	// Whoever asks it to end means the parent. To ignore signals would make all
	// processes of the sandbox ignore them.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	ch := &child{conn: c, services: map[nftables.TableFamily]*services{}, running: map[int]bool{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			ch.reap()
		}
	}()
	for {
		var r request
		files, err := c.receive(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.Setup != nil {
			ch.answer(r, files) // the others need it
			continue
		}
		go ch.answer(r, files)
	}
}

// answer does what was asked and says what became of it.
func (c *child) answer(r request, files []*os.File) {
	a := response{ID: r.ID}
	passed, err := c.do(r, files, &a)
	closeAll(files)
	if err != nil {
		a.Error = err.Error()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			a.Errno = int(errno)
		}
	}
	if passed == nil {
		err = c.conn.send(a)
	} else {
		err = c.conn.send(a, passed)
		passed.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox: answer:", err)
	}
}

func (c *child) do(r request, files []*os.File, a *response) (passed *os.File, err error) {
	switch {
	case r.Setup != nil:
		return nil, c.setup(r.Setup)
	case r.AddPod != nil:
		return nil, c.addPod(*r.AddPod)
	case r.RemovePod != "":
		return nil, c.removePod(r.RemovePod)
	case r.SetService != nil:
		return nil, c.setService(*r.SetService)
	case r.RemoveService != "":
		return nil, c.removeService(r.RemoveService)
	case r.Socket != nil:
		return c.open(*r.Socket)
	case r.Start != nil:
		a.PID, err = c.start(*r.Start, files)
		return nil, err
	case r.Signal != nil:
		return nil, c.signal(r.Signal.PID, syscall.Signal(r.Signal.Number))
	}
	return nil, errors.New("nothing is asked")
}

// setup makes the sandbox's own network, and shows its own processes in /proc.
func (c *child) setup(s *setup) (err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if c.network, err = newNetwork(s); err != nil {
		return err
	}
	for _, addr := range s.Hosts {
		family := tableFamily(addr)
		if c.services[family], err = newServices(family); err != nil {
			return err
		}
	}
	return nil
}

func (c *child) addPod(pod Pod) error {
	added, err := c.network.add(pod)
	if err != nil || !added {
		return err
	}
	return c.hairpin(pod, true)
}

func (c *child) removePod(id string) error {
	pod, err := c.network.remove(id)
	if err != nil || pod == nil {
		return err
	}
	return c.hairpin(*pod, false)
}

// hairpin lets a pod reach itself by way of Services, or not any more. What comes from a
// proxy has been to Services before.
func (c *child) hairpin(pod Pod, is bool) error {
	if pod.Redirect != nil {
		return nil
	}
	var errs []error
	for _, addr := range pod.Addresses {
		errs = append(errs, c.services[tableFamily(addr)].hairpin(addr, is))
	}
	return errors.Join(errs...)
}

func (c *child) setService(service Service) error {
	family := tableFamily(service.Address.Addr())
	for other, services := range c.services {
		if other != family {
			if err := services.remove(service.ID); err != nil {
				return err
			}
		}
	}
	if services := c.services[family]; services != nil {
		return services.set(service)
	}
	return nil
}

func (c *child) removeService(id string) error {
	var errs []error
	for _, services := range c.services {
		errs = append(errs, services.remove(id))
	}
	return errors.Join(errs...)
}

// reap tells of each process that has ended. All of the sandbox without a parent
// of their own come here, too.
func (c *child) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if !c.running[pid] {
			continue
		}
		delete(c.running, pid)
		exit := Exit{Code: status.ExitStatus()}
		if status.Signaled() {
			exit = Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
		}
		if err := c.conn.send(response{PID: pid, Exit: &exit}); err != nil {
			fmt.Fprintln(os.Stderr, "sandbox: end of a process:", err)
		}
	}
}

func (c *child) signal(pid int, number syscall.Signal) error {
	c.mu.Lock() // so that the number is still its own
	defer c.mu.Unlock()
	if !c.running[pid] {
		return nil
	}
	if leftToKernel(pid, number) {
		number = unix.SIGKILL
	}
	if number == unix.SIGKILL {
		pid = -pid // with what it has started; it leads a group
	}
	return unix.Kill(pid, number)
}

// leftToKernel reports whether a process leaves a signal to the kernel, which would let no first
// process of a PID namespace end by it: such a program is ended as it would be at a shell.
func leftToKernel(pid int, number syscall.Signal) bool {
	if number != unix.SIGTERM && number != unix.SIGINT && number != unix.SIGHUP && number != unix.SIGQUIT {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigCgt" && name != "SigIgn" {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || mask&(1<<(number-1)) != 0 {
			return false
		}
	}
	return true
}

// lockThread keeps the goroutine's thread for it, and ends the thread with it.
func lockThread() { runtime.LockOSThread() }

// inThread runs f in a thread of its own, which may go to namespaces that it
// does not come back from.
func inThread[T any](f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result)
	go func() {
		lockThread()
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("panic: %v", v)
			}
			done <- r
		}()
		r.value, r.err = f()
	}()
	r := <-done
	return r.value, r.err
}
