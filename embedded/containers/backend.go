package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// Streams are those of whoever runs a command in a container, or looks at it. What is not asked for is nil.
type Streams struct {
	In          io.Reader
	Out, ErrOut io.Writer
	// Terminal says that the process has one, of the sizes that Resize has.
	Terminal bool
	Resize   <-chan remotecommand.TerminalSize
}

// find is a container of a pod that runs. The error is for whoever asked for it.
func (r *Runner) find(namespace, pod, name string) (*container, error) {
	w := r.named(namespace, pod)
	if w == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod+": nothing runs in it")
	}
	for _, list := range [][]*container{w.init, w.main} {
		for _, c := range list {
			if c.spec.Name == name {
				if c.command == nil {
					return nil, apierrors.NewBadRequest(fmt.Sprintf(
						"container %s of pod %s has nothing to run: say what by annotation %s%s", name, pod, RunAnnotation, name))
				}
				return c, nil
			}
		}
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod))
}

// named is the worker of a pod; nil: the pod stands in.
func (r *Runner) named(namespace, pod string) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if w.pod.Namespace == namespace && w.pod.Name == pod {
			return w
		}
	}
	return nil
}

// Has reports whether a pod runs here.
func (r *Runner) Has(namespace, pod string) bool { return r.named(namespace, pod) != nil }

// Log is the file of a container's output in the format of the container runtime interface, of the
// run before the last if previous. The channel closes when nothing more will be written.
func (r *Runner) Log(namespace, pod, name string, previous bool) (path string, ended <-chan struct{}, err error) {
	if !r.Has(namespace, pod) {
		path, err := r.formerLog(namespace, pod, name, previous)
		return path, closedChannel(), err
	}
	c, err := r.find(namespace, pod, name)
	if err != nil {
		return "", nil, err
	}
	c.mu.Lock()
	restarts, done := c.logged, c.done
	c.mu.Unlock()
	if previous {
		restarts, done = restarts-1, closedChannel()
	}
	path = logPath(c.worker.dir, name, restarts)
	if _, err := os.Stat(path); err != nil {
		what := "container"
		if previous {
			what = "previous terminated container"
		}
		return "", nil, apierrors.NewBadRequest(fmt.Sprintf("%s %q in pod %q has no log yet", what, name, pod))
	}
	return path, done, nil
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// running is the present run of a container.
func (c *container) present() (*started, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %s of pod %s is not running", c.spec.Name, c.worker.pod.Name))
	}
	return c.running, nil
}

// awaitStart is the present run of a container, or that which begins now that somebody is
// attached; nil if it cannot be started.
func (c *container) awaitStart(ctx context.Context) (*started, error) {
	for {
		c.mu.Lock()
		run, state, wake := c.running, c.current.State, c.wake
		c.mu.Unlock()
		switch {
		case run != nil:
			return run, nil
		case state.Terminated != nil:
			return nil, nil
		case state.Running == nil && (state.Waiting == nil || state.Waiting.Reason != AwaitingAttach):
			return c.present()
		}
		select { // it is about to start, or has just ended
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Exec runs a command in a container. An exit code other than 0 is a
// CodeExitError.
func (r *Runner) Exec(ctx context.Context, namespace, pod, name string, command []string, with Streams) error {
	c, err := r.find(namespace, pod, name)
	if err != nil {
		return err
	}
	present, err := c.present()
	if err != nil {
		return err
	}
	process := c.beside(present, command)
	process.Terminal = with.Terminal
	var streams *ends
	if with.Terminal {
		streams, err = newTerminal(with)
	} else {
		streams, err = newPipes(with)
	}
	if err != nil {
		return err
	}
	defer streams.close()
	running, err := r.config.Sandbox.Run(ctx, process, streams.process[0], streams.process[1], streams.process[2])
	streams.given()
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	exit := awaitExit(ctx, running)
	streams.drain()
	if exit.Code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", exit.Code), Code: exit.Code}
	}
	return nil
}

// beside is a command in the container while it runs.
func (c *container) beside(present *started, command []string) sandbox.Process {
	return sandbox.Process{Place: c.place(), Args: command, Env: assignments(c.programEnv(present.env)), Dir: c.spec.WorkingDir, Beside: present.process.PID}
}

// Attach shows the output of a container as it comes, and gives it input, until it
// ends or ctx does.
func (r *Runner) Attach(ctx context.Context, namespace, pod, name string, with Streams) error {
	c, err := r.find(namespace, pod, name)
	if err != nil {
		return err
	}
	if with.Terminal {
		with.ErrOut = nil
	}
	defer c.audience.join(&watcher{with.Out, with.ErrOut})()
	present, err := c.awaitStart(ctx)
	if present == nil || err != nil {
		return err
	}
	if with.In != nil && present.input != nil {
		// It ends with the connection.
		go func() {
			_, _ = io.Copy(present.input, with.In)
			if c.spec.StdinOnce && !c.spec.TTY {
				present.input.Close()
			}
		}()
	}
	for {
		select {
		case size, ok := <-with.Resize:
			if ok && c.spec.TTY {
				_ = setSize(present.input, size) // a size too small for the terminal
			}
			if !ok {
				with.Resize = nil
			}
		case <-present.done:
			return nil
		case <-ctx.Done():
			if with.In != nil && attended(c.worker) {
				return errors.Join(ctx.Err(), c.worker.abandon(context.WithoutCancel(ctx)))
			}
			return ctx.Err()
		}
	}
}

// abandon deletes a pod that was made for somebody who has gone without a word.
func (w *worker) abandon(ctx context.Context) error {
	w.runner.log.Info("whoever ran the pod has gone", "pod", w.name())
	err := w.runner.config.Client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &w.pod.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// attachWithin is how long a pod waits for somebody to be attached.
const attachWithin = time.Minute

// AwaitingAttach is why a container waits that starts when somebody is attached.
const AwaitingAttach = "AwaitingAttach"

// awaitAttach waits for somebody to be attached, if the pod asks for that. It reports false if
// the container ends before.
func (c *container) awaitAttach(ctx context.Context, stop <-chan struct{}) bool {
	if c.worker.pod.Annotations[AwaitAttachAnnotation] != "true" || !c.spec.Stdin {
		return true
	}
	c.update(func(s *corev1.ContainerStatus) { s.State = waiting(AwaitingAttach, "") })
	timer := c.worker.runner.config.Clock.NewTimer(attachWithin)
	defer timer.Stop()
	select {
	case <-c.audience.there():
		return true
	case <-timer.C():
		if err := c.worker.abandon(ctx); err != nil {
			c.worker.runner.log.Warn("pod that nobody is attached to", "pod", c.worker.name(), "error", err)
		}
		<-stop
		return false
	case <-stop:
		return false
	}
}

// dialWithin bounds how long connecting to a port takes.
const dialWithin = 10 * time.Second

// Dial connects to a port in a pod's network, as its programs would by
// localhost. The proxy's own ports are those of the pod, too.
func (r *Runner) Dial(ctx context.Context, namespace, pod string, port uint16) (net.Conn, error) {
	w := r.named(namespace, pod)
	if w == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod+": nothing runs in it")
	}
	var errs []error
	for _, side := range []sandbox.Side{sandbox.ProgramSide, sandbox.ProxySide} {
		if side == sandbox.ProxySide && w.redirect == nil {
			continue
		}
		for _, host := range w.localhosts(side) {
			conn, err := r.config.Sandbox.Dial(ctx, sandbox.Place{Pod: string(w.pod.UID), Side: side}, netip.AddrPortFrom(host, port), dialWithin)
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
	}
	return nil, errors.Join(errs...)
}

// localhosts are where a port of the pod may be listened on.
func (w *worker) localhosts(side sandbox.Side) []netip.Addr {
	hosts := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	if slices.ContainsFunc(w.addresses, netip.Addr.Is6) {
		hosts = append(hosts, netip.IPv6Loopback())
	}
	if side == sandbox.ProgramSide {
		hosts = append(hosts, w.addresses...)
	}
	return hosts
}

// ends are both ends of the files of a process.
type ends struct {
	process [3]*os.File
	// ours are closed at the end.
	ours   []*os.File
	copies lifecycle.Group
}

// given closes what the process has by now.
func (e *ends) given() {
	for _, file := range e.process {
		file.Close()
	}
}

func (e *ends) close() {
	for _, file := range e.ours {
		file.Close()
	}
}

// drain waits until all output is copied. What a command leaves running may
// hold it open, and is not waited for long.
func (e *ends) drain() {
	done := make(chan struct{})
	go func() {
		_ = e.copies.Wait() // the other end has gone, and will know
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func newPipes(with Streams) (*ends, error) {
	e := &ends{}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e.process[0], e.ours = inRead, append(e.ours, inWrite)
	if with.In == nil {
		inWrite.Close()
	} else {
		go func() { // it ends with the connection
			_, _ = io.Copy(inWrite, with.In)
			inWrite.Close()
		}()
	}
	for i, to := range []io.Writer{with.Out, with.ErrOut} {
		if to == nil {
			to = io.Discard
		}
		read, write, err := os.Pipe()
		if err != nil {
			e.given()
			e.close()
			return nil, err
		}
		e.process[i+1], e.ours = write, append(e.ours, read)
		e.copies.Go("output", func() error {
			_, err := io.Copy(to, read)
			return err
		})
	}
	return e, nil
}

func newTerminal(with Streams) (*ends, error) {
	terminal, program, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	e := &ends{process: [3]*os.File{program, program, program}, ours: []*os.File{terminal}}
	if with.In != nil {
		go func() { _, _ = io.Copy(terminal, with.In) }() // it ends with the connection
	}
	go func() {
		for size := range with.Resize {
			_ = setSize(terminal, size) // the terminal may be gone
		}
	}()
	if with.Out != nil {
		e.copies.Go("output", func() error {
			_, _ = io.Copy(with.Out, terminal) // a terminal without a program ends with an error
			return nil
		})
	}
	return e, nil
}

func setSize(terminal *os.File, size remotecommand.TerminalSize) error {
	return pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
}
