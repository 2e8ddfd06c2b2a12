package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// worker has one pod, from its network to its end.
type worker struct {
	runner *Runner
	pod    *corev1.Pod
	// addresses are one, or one of each family; the first is what probes go to.
	addresses []netip.Addr
	dir       string
	volumes   *volumes
	// redirect is nil unless the pod is meshed.
	redirect *sandbox.Redirect
	init     []*container
	main     []*container

	// stop is closed when the pod is to end, over when nothing of it runs any more.
	stop, over chan struct{}

	began time.Time
	told  sync.Once // that the pod is ready

	mu sync.Mutex
	// deadline is when what still runs is killed, once stop is closed.
	deadline time.Time
	warned   string
	prepared bool // network and volumes are there
	// initialized and failed are about the pod as a whole.
	initialized     bool
	final           corev1.PodPhase
	reason, message string
}

func newWorker(r *Runner, pod *corev1.Pod, addresses []netip.Addr) (*worker, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no address", pod.Namespace, pod.Name)
	}
	// What refers to addresses gets those that the pod really has.
	pod.Status.PodIP, pod.Status.PodIPs = addresses[0].String(), nil
	for _, addr := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: addr.String()})
	}
	dir := filepath.Join(r.podsDir(), string(pod.UID))
	w := &worker{
		runner: r, pod: pod, addresses: addresses, dir: dir, began: r.config.Clock.Now(),
		volumes: &volumes{sources: sources{r.config.Client, pod.Namespace}, dir: dir, claims: r.claims(), pod: pod, now: r.config.Clock.Now, tokens: map[string]madeToken{}, allowed: r.config.HostPaths},
		stop:    make(chan struct{}), over: make(chan struct{}),
	}
	var err error
	if r.config.Programs.meshed(pod) {
		if w.redirect, err = redirect(pod); err != nil {
			return nil, err
		}
	}
	for _, spec := range pod.Spec.InitContainers {
		c, err := newContainer(w, spec, true)
		if err != nil {
			return nil, err
		}
		w.init = append(w.init, c)
	}
	for _, spec := range pod.Spec.Containers {
		c, err := newContainer(w, spec, false)
		if err != nil {
			return nil, err
		}
		w.main = append(w.main, c)
	}
	return w, nil
}

// grace is how long the pod wants to have for its end.
func (w *worker) grace() time.Duration {
	if seconds := w.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// until is ctx until stop is closed: for what may take long before anything runs.
func until(ctx context.Context, stop <-chan struct{}) (_ context.Context, release func() error) {
	group, ctx := lifecycle.NewGroup(ctx)
	group.Go("end of a pod", func() error {
		select {
		case <-stop:
			return errStopped
		case <-ctx.Done():
			return nil
		}
	})
	return ctx, group.Cancel
}

// errStopped says that the pod is to end.
var errStopped = errors.New("the pod ends")

// terminate begins the end of the pod, or brings it nearer.
func (w *worker) terminate(grace time.Duration) {
	deadline := w.runner.config.Clock.Now().Add(grace)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !closed(w.stop) {
		w.deadline = deadline
		close(w.stop)
	} else if deadline.Before(w.deadline) {
		w.deadline = deadline
	}
}

// left is how long what runs may still run.
func (w *worker) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deadline.IsZero() {
		return w.grace() // it ends by itself
	}
	return w.deadline.Sub(w.runner.config.Clock.Now())
}

func (w *worker) stopping() bool { return closed(w.stop) }

// run has the whole life of the pod. Its error is a panic.
func (w *worker) run(ctx context.Context) error {
	defer w.changed()
	defer close(w.over)
	if w.lost() {
		w.update(func() { w.prepared, w.initialized = true, true })
		w.end(finalPhase(w.status().Containers, w.pod.Spec.RestartPolicy))
		return nil
	}
	defer w.removeNetwork(ctx)
	if !w.prepare(ctx) {
		w.end(corev1.PodFailed)
		return nil
	}
	var sidecars []*sidecar
	var limit, group lifecycle.Group
	done := make(chan struct{})
	limit.Go("active deadline", func() error { return w.limitTime(done) })
	limit.Go("volumes", func() error { return w.refresh(ctx, done) })
	ok := w.initialize(ctx, &sidecars)
	if ok {
		w.update(func() { w.initialized = true })
		for _, c := range w.main {
			group.Go("container "+c.spec.Name, func() error { return c.run(ctx, w.stop) })
			c.awaitHook(w.stop)
		}
	}
	err := group.Wait()
	close(done)
	err = errors.Join(err, limit.Wait())
	phase := corev1.PodFailed
	if ok {
		phase = finalPhase(w.status().Containers, w.pod.Spec.RestartPolicy)
	}
	// The last that was started ends first.
	for _, s := range slices.Backward(sidecars) {
		s.end()
		err = errors.Join(err, s.Wait())
	}
	w.end(phase)
	return err
}

// prepare makes the network and the volumes, and goes on trying. It reports
// false if the pod ends before.
func (w *worker) prepare(ctx context.Context) bool {
	ctx, release := until(ctx, w.stop)
	defer func() { _ = release() }() // it says why it ended
	if w.ranBefore() {
		w.event(corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	steps := []struct {
		reason string
		make   func(context.Context) error
	}{
		{"FailedCreatePodSandBox", func(ctx context.Context) error {
			return w.runner.config.Sandbox.AddPod(ctx, sandbox.Pod{ID: string(w.pod.UID), Addresses: w.addresses, Redirect: w.redirect})
		}},
		{"FailedMount", w.volumes.write},
		{"FailedMount", w.writeNames},
	}
	for _, step := range steps {
		for attempt := 0; ; attempt++ {
			err := step.make(ctx)
			if err == nil {
				break
			}
			if w.stopping() {
				return false
			}
			w.warn(step.reason, err.Error())
			if !w.sleep(min(time.Second<<min(attempt, 4), 10*time.Second), w.stop) {
				return false
			}
		}
	}
	w.update(func() { w.prepared = true })
	return true
}

// sleep waits, and reports whether it has not been ended early.
func (w *worker) sleep(d time.Duration, end <-chan struct{}) bool {
	timer := w.runner.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-end:
		return false
	}
}

// sidecar is an init container that goes on running, and its run.
type sidecar struct {
	*container
	lifecycle.Group
}

// initialize runs the init containers one after the other; sidecars go on
// running. It reports whether all have done their work.
func (w *worker) initialize(ctx context.Context, sidecars *[]*sidecar) bool {
	for _, c := range w.init {
		if w.stopping() {
			return false
		}
		if isSidecar(c.spec) {
			s := &sidecar{container: c}
			s.Go("sidecar "+c.spec.Name, func() error { return c.run(ctx, c.ended) })
			*sidecars = append(*sidecars, s)
			if !c.awaitStarted(w.stop) {
				return false
			}
			continue
		}
		if err := c.run(ctx, w.stop); err != nil || !c.succeeded() {
			return false
		}
	}
	return true
}

// refreshEvery is how often volumes are made anew, as a kubelet does.
const refreshEvery = time.Minute

// refresh writes what has changed in the volumes, until the pod ends.
func (w *worker) refresh(ctx context.Context, done <-chan struct{}) error {
	for w.sleep(refreshEvery, done) && !w.stopping() {
		if err := w.volumes.refresh(ctx); err != nil && !w.stopping() {
			w.event(corev1.EventTypeWarning, "FailedMount", err.Error())
		}
	}
	return nil
}

// limitTime ends the pod when its active deadline is over, unless it is done before.
func (w *worker) limitTime(done <-chan struct{}) error {
	seconds := w.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return nil
	}
	if w.sleep(time.Duration(*seconds)*time.Second, done) {
		w.update(func() {
			w.reason, w.message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
		})
		w.terminate(w.grace())
	}
	return nil
}

// status is what there is to tell.
func (w *worker) status() kubelet.RunStatus {
	w.mu.Lock()
	s := kubelet.RunStatus{Prepared: w.prepared, Initialized: w.initialized, Phase: corev1.PodPending, Reason: w.reason, Message: w.message}
	final := w.final
	w.mu.Unlock()
	for _, c := range w.init {
		s.Init = append(s.Init, c.status(s.Prepared, true))
	}
	for _, c := range w.main {
		s.Containers = append(s.Containers, c.status(s.Prepared, s.Initialized))
	}
	switch {
	case final != "":
		s.Phase = final
	case s.Initialized:
		s.Phase = corev1.PodRunning
	}
	return s
}

// end is the end of the pod.
func (w *worker) end(phase corev1.PodPhase) {
	w.update(func() {
		w.final = phase
		if w.reason != "" {
			w.final = corev1.PodFailed
		}
	})
}

func (w *worker) update(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.changed()
}

func (w *worker) changed() {
	if s := w.status(); s.Phase == corev1.PodRunning && !slices.ContainsFunc(s.Containers, func(c corev1.ContainerStatus) bool { return !c.Ready }) {
		w.told.Do(func() { w.runner.printer.ready(w, w.runner.config.Clock.Since(w.began)) })
	}
	w.runner.config.Changed(w.pod.Namespace, w.pod.Name)
}

// warn tells of what keeps the pod from going on.
func (w *worker) warn(reason, message string) {
	w.event(corev1.EventTypeWarning, reason, message)
	w.tell(reason, message)
}

// tell tells on the terminal what keeps the pod from going on, unless it has just said so.
func (w *worker) tell(reason, message string) {
	w.mu.Lock()
	said := w.warned == message
	w.warned = message
	w.mu.Unlock()
	if !said {
		w.runner.printer.problem(w, reason, message)
	}
}

func (w *worker) event(kind, reason, message string) {
	w.runner.config.Events.Event(w.pod, kind, reason, message)
}

func (w *worker) removeNetwork(ctx context.Context) {
	if err := w.runner.config.Sandbox.RemovePod(ctx, string(w.pod.UID)); err != nil && ctx.Err() == nil {
		w.runner.log.Warn("network of a pod is not removed", "pod", w.pod.Namespace+"/"+w.pod.Name, "error", err)
	}
}
