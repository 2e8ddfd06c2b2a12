package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Sandbox is the parent's hold of a running sandbox. Its methods may be called
// from many goroutines.
type Sandbox struct {
	conn    *conn
	command *exec.Cmd
	done    chan struct{}

	mu      sync.Mutex
	err     error // why it has ended, once done is closed
	last    uint64
	waiting map[uint64]chan answer
	// exits are those of running processes; ended those that nobody has asked for yet.
	exits map[int]chan Exit
	ended map[int]Exit
}

type answer struct {
	response
	files []*os.File
}

// socketFD is where the child finds its end of the connection.
const socketFD = 3

// Start starts a sandbox; ErrForbidden is among its errors. It lives until Close,
// or until this process ends.
func Start(config Config) (*Sandbox, error) {
	parent, child, err := pair()
	if err != nil {
		return nil, err
	}
	defer child.Close()
	c, err := newConn(parent)
	if err != nil {
		return nil, err
	}
	command := exec.Command(config.Command[0], config.Command[1:]...)
	command.ExtraFiles, command.Stderr = []*os.File{child}, config.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		// A Go process cannot move into a user namespace itself: it has threads.
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: mapping(os.Getuid()),
		GidMappings: mapping(os.Getgid()),
		Pdeathsig:   syscall.SIGKILL,
		Setsid:      true, // signals of the terminal are the parent's
	}
	s := &Sandbox{conn: c, command: command, done: make(chan struct{}), waiting: map[uint64]chan answer{}, exits: map[int]chan Exit{}, ended: map[int]Exit{}}
	if err := s.start(config); err != nil {
		c.unix.Close()
		return nil, err
	}
	return s, nil
}

// mapping gives root the rights of this user. A root of this machine keeps all others, too.
func mapping(id int) []syscall.SysProcIDMap {
	if id == 0 {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	}
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
}

func (s *Sandbox) start(config Config) error {
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The child is killed when the thread ends that started it.
		lockThread()
		err := s.command.Start()
		started <- err
		if err == nil {
			ended <- s.command.Wait()
		}
	}()
	if err := <-started; err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EACCES) {
			err = fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		return err
	}
	go s.read(ended)
	return s.call(context.Background(), request{Setup: &setup{Hosts: config.Hosts, Services: config.Services}})
}

// read gives answers to those who wait for them, until the child is gone.
func (s *Sandbox) read(ended <-chan error) {
	for {
		var r response
		files, err := s.conn.receive(&r)
		if err != nil {
			break
		}
		s.deliver(answer{r, files})
	}
	s.conn.unix.Close() // at which the child ends, should it be there
	err := <-ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = fmt.Errorf("the sandbox has ended: %v", err)
	close(s.done)
}

func (s *Sandbox) deliver(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch to, waits := s.waiting[a.ID]; {
	case waits:
		delete(s.waiting, a.ID)
		to <- a
	case a.Exit == nil:
		closeAll(a.files) // who asked has gone
	case s.exits[a.PID] != nil:
		s.exits[a.PID] <- *a.Exit
		delete(s.exits, a.PID)
	default:
		s.ended[a.PID] = *a.Exit
	}
}

// PID is the number of the child, outside of the sandbox.
func (s *Sandbox) PID() int { return s.command.Process.Pid }

// Done is closed when the sandbox has ended.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Err is why the sandbox has ended.
func (s *Sandbox) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the sandbox and all that runs in it.
func (s *Sandbox) Close() error {
	s.conn.unix.Close()
	<-s.done
	return nil
}

func (s *Sandbox) call(ctx context.Context, r request, files ...*os.File) error {
	a, err := s.ask(ctx, r, files...)
	closeAll(a.files)
	return err
}

func (s *Sandbox) ask(ctx context.Context, r request, files ...*os.File) (answer, error) {
	to := make(chan answer, 1)
	s.mu.Lock()
	s.last++
	r.ID = s.last
	s.waiting[r.ID] = to
	s.mu.Unlock()
	if err := s.conn.send(r, files...); err != nil {
		s.mu.Lock()
		delete(s.waiting, r.ID)
		s.mu.Unlock()
		return answer{}, fmt.Errorf("asking the sandbox: %w", err)
	}
	select {
	case a := <-to:
		return a, a.err()
	case <-s.done:
		return answer{}, s.Err()
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, r.ID)
		select {
		case a := <-to:
			closeAll(a.files)
		default:
		}
		return answer{}, ctx.Err()
	}
}

// remoteError is the child's, with the number that errors.Is compares.
type remoteError struct {
	text  string
	errno syscall.Errno
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.errno }

func (r response) err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Errno == 0:
		return errors.New(r.Error)
	}
	err := error(&remoteError{r.Error, syscall.Errno(r.Errno)})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("%w: %w", ErrNoIPv6, err)
	}
	return err
}

// AddPod makes the network of a pod.
func (s *Sandbox) AddPod(ctx context.Context, pod Pod) error {
	return s.call(ctx, request{AddPod: &pod})
}

// RemovePod takes a pod's network away; of one that is not there, nothing.
func (s *Sandbox) RemovePod(ctx context.Context, id string) error {
	return s.call(ctx, request{RemovePod: id})
}

// SetService makes or changes the port of a Service.
func (s *Sandbox) SetService(ctx context.Context, service Service) error {
	return s.call(ctx, request{SetService: &service})
}

// RemoveService takes the port of a Service away; of one that is not there, nothing.
func (s *Sandbox) RemoveService(ctx context.Context, id string) error {
	return s.call(ctx, request{RemoveService: id})
}

// Listen listens in a network of the sandbox.
func (s *Sandbox) Listen(ctx context.Context, in Place, at netip.AddrPort) (net.Listener, error) {
	file, err := s.open(ctx, socket{Place: in, Network: "tcp", Address: at, Listen: true})
	if err != nil {
		return nil, fmt.Errorf("listen on %s of the sandbox: %w", at, err)
	}
	defer file.Close()
	return net.FileListener(file)
}

// ListenPacket is Listen for UDP.
func (s *Sandbox) ListenPacket(ctx context.Context, in Place, at netip.AddrPort) (net.PacketConn, error) {
	file, err := s.open(ctx, socket{Place: in, Network: "udp", Address: at, Listen: true})
	if err != nil {
		return nil, fmt.Errorf("listen on %s of the sandbox: %w", at, err)
	}
	defer file.Close()
	return net.FilePacketConn(file)
}

// Dial connects from a network of the sandbox, by TCP. Its error has the
// system's number, such as ECONNREFUSED.
func (s *Sandbox) Dial(ctx context.Context, from Place, to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	file, err := s.open(ctx, socket{Place: from, Network: "tcp", Address: to, TimeoutMs: max(1, timeout.Milliseconds())})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileConn(file)
}

func (s *Sandbox) open(ctx context.Context, wanted socket) (*os.File, error) {
	a, err := s.ask(ctx, request{Socket: &wanted})
	if err != nil {
		return nil, err
	}
	if len(a.files) != 1 {
		closeAll(a.files)
		return nil, fmt.Errorf("the sandbox passed %d sockets instead of one", len(a.files))
	}
	return a.files[0], nil
}

// Running is a process that was started.
type Running struct {
	// PID is its number in the sandbox.
	PID  int
	exit <-chan Exit
	s    *Sandbox
}

// Run starts a process with the given standard input, output and error, which
// the caller goes on owning.
func (s *Sandbox) Run(ctx context.Context, process Process, stdin, stdout, stderr *os.File) (*Running, error) {
	// It is not given up halfway: somebody has to know of the process.
	a, err := s.ask(context.WithoutCancel(ctx), request{Start: &process}, stdin, stdout, stderr)
	if err != nil {
		return nil, err
	}
	exit := make(chan Exit, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if early, ok := s.ended[a.PID]; ok {
		delete(s.ended, a.PID)
		exit <- early
	} else {
		s.exits[a.PID] = exit
	}
	return &Running{PID: a.PID, exit: exit, s: s}, nil
}

// Wait waits for the end of the process. Call it once.
func (r *Running) Wait() Exit {
	select {
	case exit := <-r.exit:
		return exit
	case <-r.s.done:
		return Exit{Code: -1, Signal: int(syscall.SIGKILL)}
	}
}

// Signal sends a signal to the process; one that has ended gets none.
func (r *Running) Signal(ctx context.Context, number syscall.Signal) error {
	return r.s.call(ctx, request{Signal: &sending{r.PID, int(number)}})
}
