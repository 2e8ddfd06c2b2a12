package containers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/images"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// started is one run of a container.
type started struct {
	process *sandbox.Running
	env     map[string]string
	log     *logFile
	// input is the writing end of standard input; nil: there is none.
	input *os.File
	// copies are those of the output into the log.
	copies lifecycle.Group
	files  []*os.File
	// done is closed when the process has ended and all its output is in the log.
	done chan struct{}
}

func (s *started) close() {
	for _, file := range s.files {
		file.Close()
	}
	s.log.close()
}

// drained waits until all output is in the log. Everything that had it open has
// ended with the process.
func (s *started) drained() { _ = s.copies.Wait() }

// configError is about what a container refers to.
type configError struct{ error }

func (e configError) Unwrap() error { return e.error }

// start starts the container's process.
func (c *container) start(ctx context.Context, stop <-chan struct{}) (_ *started, err error) {
	w := c.worker
	ctx, release := until(ctx, stop)
	defer func() { _ = release() }() // it says why it ended
	env, err := w.volumes.environment(ctx, w.pod, &c.spec)
	if err != nil {
		return nil, configError{err}
	}
	mounts, err := w.volumes.mounts(&c.spec, env)
	if err != nil {
		return nil, configError{err}
	}
	if c.command.proxy {
		own, err := c.proxyFiles(ctx, env)
		if err != nil {
			return nil, configError{err}
		}
		mounts = append(mounts, own...)
	}
	image, err := c.image(ctx)
	if err != nil {
		return nil, imageError{err}
	}
	s := &started{env: env, done: make(chan struct{})}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	c.removeFormer()
	if s.log, err = createLog(logPath(w.dir, c.spec.Name, c.restarts()), w.runner.config.Clock.Now); err != nil {
		return nil, err
	}
	stdin, stdout, stderr, err := c.pipes(s)
	if err != nil {
		return nil, err
	}
	process := c.process(image, env, append(w.nameMounts(), mounts...))
	s.process, err = w.runner.config.Sandbox.Run(ctx, process, stdin, stdout, stderr)
	for _, file := range []*os.File{stdin, stdout, stderr} {
		file.Close()
	}
	if err == nil {
		w.event(corev1.EventTypeNormal, "Created", "Container created")
	}
	return s, err
}

// imageError says why there is no image.
type imageError struct{ error }

func (e imageError) Unwrap() error { return e.error }

// image is that of the container; nil if it needs none.
func (c *container) image(ctx context.Context) (*images.Image, error) {
	if c.command.image == "" {
		return nil, nil
	}
	store, clock := c.worker.runner.config.Programs.Images, c.worker.runner.config.Clock
	if store.Local(c.command.image) {
		image, err := store.Get(ctx, c.command.image)
		if err == nil {
			c.worker.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.spec.Image))
		}
		return image, err
	}
	began := clock.Now()
	c.worker.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.spec.Image))
	image, err := store.Get(ctx, c.command.image)
	if err == nil {
		took := clock.Since(began).Truncate(time.Millisecond)
		c.worker.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting)", c.spec.Image, took, took))
	}
	return image, err
}

// removeFormer removes what former runs have left, but for the log of the last.
func (c *container) removeFormer() {
	for n := c.restarts() - 2; n >= 0; n-- {
		if err := os.Remove(logPath(c.worker.dir, c.spec.Name, n)); err != nil {
			break // those before have been removed
		}
	}
	if c.command.image != "" {
		c.worker.runner.removeFiles(filepath.Join(c.worker.dir, "scratch", c.spec.Name))
	}
}

// inImage is what a container runs of its image, as its own fields and the image's have it.
func (c *container) inImage(image *images.Image) []string {
	switch {
	case len(c.spec.Command) > 0:
		return slices.Concat(c.spec.Command, c.spec.Args)
	case len(c.spec.Args) > 0:
		return slices.Concat(image.Entrypoint, c.spec.Args)
	}
	return slices.Concat(image.Entrypoint, image.Cmd)
}

func (c *container) restarts() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.RestartCount
}

// process is what the sandbox starts for the container.
func (c *container) process(image *images.Image, env map[string]string, mounts []sandbox.Mount) sandbox.Process {
	process := sandbox.Process{Place: c.place(), Dir: c.spec.WorkingDir, Mounts: mounts, Hostname: c.worker.hostname(), Terminal: c.spec.TTY}
	env = c.programEnv(env)
	args := c.command.args
	if image != nil {
		args = c.inImage(image)
		for _, variable := range image.Env {
			if name, value, _ := strings.Cut(variable, "="); env[name] == "" {
				env[name] = value
			}
		}
		process.Root = image.Root
		process.Scratch = filepath.Join(c.worker.dir, "scratch", c.spec.Name, strconv.Itoa(int(c.restarts())))
		process.Dir = cmp.Or(process.Dir, image.WorkingDir, "/")
	}
	process.Dir = cmp.Or(process.Dir, c.worker.runner.config.Programs.Dir)
	process.Args, process.Env = expand(args, env), assignments(env)
	return process
}

// place is the network that the container is in.
func (c *container) place() sandbox.Place {
	side := sandbox.ProgramSide
	if c.command.proxy {
		side = sandbox.ProxySide
	}
	return sandbox.Place{Pod: string(c.worker.pod.UID), Side: side}
}

// programEnv is the container's environment with what each program gets.
func (c *container) programEnv(env map[string]string) map[string]string {
	env = maps.Clone(env)
	defaults := map[string]string{"HOSTNAME": c.worker.hostname(), "HOME": "/root"}
	if c.command.image == "" {
		// A program of this machine finds others where the user does.
		defaults["PATH"], defaults["HOME"] = os.Getenv("PATH"), os.Getenv("HOME")
	}
	for name, value := range defaults {
		if _, has := env[name]; !has && value != "" {
			env[name] = value
		}
	}
	return env
}

// pipes are the files of a process; what it writes goes to the log.
func (c *container) pipes(s *started) (stdin, stdout, stderr *os.File, err error) {
	if c.spec.TTY {
		terminal, program, err := pty.Open()
		if err != nil {
			return nil, nil, nil, fmt.Errorf("open a terminal: %w", err)
		}
		s.input, s.files = terminal, append(s.files, terminal, program)
		s.copies.Go("terminal", func() error { return s.log.copy("stdout", terminal, &c.audience) })
		return program, program, program, nil
	}
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
			if err == nil {
				s.files = append(s.files, r, w)
			}
		}
		return r, w
	}
	outRead, stdout := pipe()
	errRead, stderr := pipe()
	if c.spec.Stdin {
		stdin, s.input = pipe()
	} else if err == nil {
		if stdin, err = os.Open(os.DevNull); err == nil {
			s.files = append(s.files, stdin)
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	s.copies.Go("standard output", func() error { return s.log.copy("stdout", outRead, &c.audience) })
	s.copies.Go("standard error", func() error { return s.log.copy("stderr", errRead, &c.audience) })
	return stdin, stdout, stderr, nil
}

// stopSignal is the signal that asks the container to end.
func stopSignal(spec corev1.Container) syscall.Signal {
	if spec.Lifecycle != nil && spec.Lifecycle.StopSignal != nil {
		if signal := unix.SignalNum(strings.ToUpper(string(*spec.Lifecycle.StopSignal))); signal != 0 {
			return signal
		}
	}
	return syscall.SIGTERM
}
