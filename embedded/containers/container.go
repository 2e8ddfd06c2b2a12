package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// Pauses between the starts of a container that ends, and after how long they
// are short again.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	calmAfter    = 10 * time.Minute
)

// container is one of a pod, through all its starts.
type container struct {
	worker *worker
	spec   corev1.Container
	isInit bool
	// command is nil if there is nothing to run: the container stands in.
	command  *command
	audience audience

	// ended asks a sidecar to end; finished is closed when the container has, for good.
	ended, finished chan struct{}
	endOnce         sync.Once
	// hooked is closed when it has been started for the first time, and its hook is through.
	hooked     chan struct{}
	hookedOnce sync.Once
	// past says that it has run before, under another process, and is not started again.
	past bool

	mu      sync.Mutex
	current corev1.ContainerStatus
	running *started // nil between starts
	// logged is the number of the newest log, and done is closed when nothing more will be
	// written to it.
	logged int32
	done   <-chan struct{}
	// wake is closed when current changes.
	wake chan struct{}
}

func newContainer(w *worker, spec corev1.Container, isInit bool) (*container, error) {
	command, err := w.runner.config.Programs.command(w.pod, spec)
	if err != nil {
		return nil, err
	}
	c := &container{
		worker: w, spec: spec, isInit: isInit, command: command,
		ended: make(chan struct{}), finished: make(chan struct{}), hooked: make(chan struct{}), wake: make(chan struct{}),
	}
	c.current = corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool)}
	list := w.pod.Status.ContainerStatuses
	if isInit {
		list = w.pod.Status.InitContainerStatuses
	}
	if i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == spec.Name }); i >= 0 && list[i].ContainerID != "" {
		c.resume(list[i])
	}
	return c, nil
}

// end asks the container to end, if it is a sidecar.
func (c *container) end() { c.endOnce.Do(func() { close(c.ended) }) }

// status is the container's, in a pod that is or is not prepared and initialized.
func (c *container) status(prepared, initialized bool) corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := *c.current.DeepCopy()
	if s.State == (corev1.ContainerState{}) {
		reason := "ContainerCreating"
		if prepared && !initialized || len(c.worker.init) > 0 && !initialized {
			reason = "PodInitializing"
		}
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	}
	return s
}

func (c *container) succeeded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.State.Terminated != nil && c.current.State.Terminated.ExitCode == 0
}

func (c *container) update(change func(s *corev1.ContainerStatus)) {
	c.mu.Lock()
	change(&c.current)
	close(c.wake)
	c.wake = make(chan struct{})
	c.mu.Unlock()
	c.worker.changed()
}

// awaitStarted waits until a sidecar has started as its startup probe has it.
func (c *container) awaitStarted(stop <-chan struct{}) bool {
	for {
		c.mu.Lock()
		started, wake := *c.current.Started, c.wake
		c.mu.Unlock()
		if started {
			return true
		}
		select {
		case <-wake:
		case <-c.finished:
			return false
		case <-stop:
			return false
		}
	}
}

// awaitHook waits until the container has been started and its hook is through.
func (c *container) awaitHook(stop <-chan struct{}) {
	select {
	case <-c.hooked:
	case <-c.finished:
	case <-stop:
	}
}

func (c *container) seconds() metav1.Time {
	return metav1.NewTime(c.worker.runner.config.Clock.Now()).Rfc3339Copy()
}

// run starts the container, again and again as the pod's policy has it, until
// stop is closed. Its error is a panic of ours.
func (c *container) run(ctx context.Context, stop <-chan struct{}) error {
	defer close(c.finished)
	switch {
	case c.past:
		return nil
	case c.command == nil:
		c.standIn(stop)
		return nil
	}
	pause := firstPause
	for {
		began := c.worker.runner.config.Clock.Now()
		again, err := c.once(ctx, stop)
		if err != nil || !again {
			return err
		}
		if c.worker.runner.config.Clock.Since(began) > calmAfter {
			pause = firstPause
		}
		ran := c.backOff(pause)
		if !c.worker.sleep(pause, stop) {
			return nil
		}
		pause = min(2*pause, longestPause)
		if ran {
			c.update(func(s *corev1.ContainerStatus) { s.RestartCount++ })
		}
	}
}

// backOff says that the container waits for its next start. It reports whether there was a start.
func (c *container) backOff(pause time.Duration) (ran bool) {
	pod := fmt.Sprintf("%s_%s(%s)", c.worker.pod.Name, c.worker.pod.Namespace, c.worker.pod.UID)
	var kind, message string
	c.update(func(s *corev1.ContainerStatus) {
		switch {
		case s.State.Terminated != nil:
			ran = true
			s.LastTerminationState = s.State
			s.State = waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", pause, s.Name, pod))
			kind, message = corev1.EventTypeWarning, fmt.Sprintf("Back-off restarting failed container %s in pod %s", s.Name, pod)
		case s.State.Waiting != nil && s.State.Waiting.Reason == errImagePull:
			kind, message = corev1.EventTypeNormal, fmt.Sprintf("Back-off pulling image %q", s.Image)
			s.State = waiting("ImagePullBackOff", message+": "+errImagePull+": "+s.State.Waiting.Message)
		}
	})
	if message != "" {
		c.worker.event(kind, "BackOff", message)
	}
	return ran
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// standIn is the life of a container that has nothing to run: one that is over
// at once, or runs as long as the others do.
func (c *container) standIn(stop <-chan struct{}) {
	defer c.hookedOnce.Do(func() { close(c.hooked) })
	if c.isInit && !isSidecar(c.spec) {
		now := c.seconds()
		c.update(func(s *corev1.ContainerStatus) {
			s.Ready = true
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		})
		return
	}
	c.begun(true, true)
	c.hookedOnce.Do(func() { close(c.hooked) })
	<-stop
	c.terminated(sandbox.Exit{}, "")
}

// begun says that the container runs.
func (c *container) begun(started, ready bool) {
	now := c.seconds()
	c.update(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		s.ImageID = c.spec.Image
		s.ContainerID = fmt.Sprintf("lite://%s/%s/%d", c.worker.pod.UID, c.spec.Name, s.RestartCount)
		*s.Started, s.Ready = started, ready
	})
}

// terminated says that the container has ended.
func (c *container) terminated(exit sandbox.Exit, message string) {
	now := c.seconds()
	ended := &corev1.ContainerStateTerminated{ExitCode: int32(exit.Code), Signal: int32(exit.Signal), Reason: "Completed", Message: message, FinishedAt: now, StartedAt: now}
	switch {
	case exit.Code == startError && message != "":
		ended.Reason = StartError
	case exit.Code != 0:
		ended.Reason = "Error"
	}
	c.update(func(s *corev1.ContainerStatus) {
		if s.State.Running != nil {
			ended.StartedAt = s.State.Running.StartedAt
		}
		ended.ContainerID = s.ContainerID
		s.State = corev1.ContainerState{Terminated: ended}
		*s.Started = false
		s.Ready = c.isInit && !isSidecar(c.spec) && exit.Code == 0
	})
}

// A process that could not be started has this exit code and reason.
const (
	startError = 128
	StartError = "StartError"
)

// once starts the container and stays until it has ended. It reports whether it
// is to be started again.
func (c *container) once(ctx context.Context, stop <-chan struct{}) (again bool, err error) {
	if !c.awaitAttach(ctx, stop) {
		return false, nil
	}
	start, err := c.start(ctx, stop)
	if err != nil {
		return !closed(stop) && c.cannotStart(err), nil
	}
	defer start.close()
	c.setRunning(start)
	probed := c.spec.StartupProbe != nil || c.spec.ReadinessProbe != nil
	waits := c.spec.StartupProbe != nil || c.waits()
	c.begun(!waits, !probed && !waits)
	c.worker.event(corev1.EventTypeNormal, "Started", "Container started")

	group, groupCtx := lifecycle.NewGroup(ctx)
	unhealthy := make(chan string, 2)
	group.Go("hook and probes", func() error { return c.watch(groupCtx, start, unhealthy) })
	exited := make(chan sandbox.Exit, 1)
	group.Go("end", func() error {
		exited <- start.process.Wait()
		return nil
	})
	var exit sandbox.Exit
	select {
	case exit = <-exited:
	case reason := <-unhealthy:
		c.worker.event(corev1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s %s, will be restarted", c.spec.Name, reason))
		exit = c.kill(ctx, start, exited, c.worker.grace())
	case <-stop:
		c.worker.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name)
		exit = c.kill(ctx, start, exited, c.worker.left())
	}
	c.setRunning(nil)
	start.drained()
	close(start.done)
	c.terminated(exit, "")
	if exit.Code != 0 && !closed(stop) {
		c.worker.runner.printer.ended(c, exit)
	}
	err = group.Cancel()
	return !closed(stop) && c.again(exit), err
}

// errImagePull is why a container waits whose image cannot be had.
const errImagePull = "ErrImagePull"

// cannotStart says why the container cannot be started, and whether that may change.
func (c *container) cannotStart(err error) bool {
	c.hookedOnce.Do(func() { close(c.hooked) }) // the others do not wait for it
	c.worker.tell("Failed", fmt.Sprintf("container %s: %v", c.spec.Name, err))
	reason := ""
	switch {
	case errors.As(err, new(configError)):
		reason = "CreateContainerConfigError"
	case errors.As(err, new(imageError)):
		reason = errImagePull
		c.worker.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.spec.Image, err))
	}
	if reason == errImagePull {
		c.worker.event(corev1.EventTypeWarning, "Failed", "Error: "+errImagePull)
	} else {
		c.worker.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
	}
	if reason != "" {
		c.update(func(s *corev1.ContainerStatus) { s.State = waiting(reason, err.Error()) })
		return true
	}
	c.terminated(sandbox.Exit{Code: startError}, err.Error())
	return c.again(sandbox.Exit{Code: startError})
}

// again reports whether the policy starts the container again after such an end.
func (c *container) again(exit sandbox.Exit) bool {
	policy := c.worker.pod.Spec.RestartPolicy
	switch {
	case isSidecar(c.spec) && c.isInit:
		return true
	case c.isInit:
		return exit.Code != 0 && policy != corev1.RestartPolicyNever
	case policy == corev1.RestartPolicyOnFailure:
		return exit.Code != 0
	}
	return policy != corev1.RestartPolicyNever
}

// kill ends the process: the hook before the end, SIGTERM, and SIGKILL when the grace is over.
func (c *container) kill(ctx context.Context, start *started, exited <-chan sandbox.Exit, grace time.Duration) sandbox.Exit {
	clock := c.worker.runner.config.Clock
	deadline := clock.Now().Add(grace)
	if hook := c.spec.Lifecycle; hook != nil && hook.PreStop != nil {
		hookCtx, cancel := context.WithTimeout(ctx, grace)
		if err := c.hook(hookCtx, start, hook.PreStop); err != nil {
			c.worker.event(corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
		}
		cancel()
	}
	c.signal(ctx, start, stopSignal(c.spec))
	// The deadline may come nearer.
	for {
		left := deadline.Sub(clock.Now())
		if c.worker.stopping() {
			left = min(left, c.worker.left())
		}
		if left <= 0 {
			c.signal(ctx, start, syscall.SIGKILL)
			return <-exited
		}
		timer := clock.NewTimer(min(left, time.Second))
		select {
		case exit := <-exited:
			timer.Stop()
			return exit
		case <-timer.C():
		}
	}
}

func (c *container) signal(ctx context.Context, start *started, signal syscall.Signal) {
	if err := start.process.Signal(ctx, signal); err != nil {
		c.worker.runner.log.Debug("signal for a container", "pod", c.worker.pod.Name, "container", c.spec.Name, "error", err)
	}
}

func (c *container) setRunning(run *started) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = run
	if run != nil {
		c.logged, c.done = c.current.RestartCount, run.done
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
