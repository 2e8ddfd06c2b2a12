package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Config is what a Runner needs.
type Config struct {
	Sandbox *sandbox.Sandbox
	// Dir holds the files and logs of pods, and what their claims have.
	Dir      string
	Programs Programs
	// Client reads what pods refer to, and must not be rate limited.
	Client kubernetes.Interface
	// Changed is called when the status of a pod has changed. It must not block.
	Changed       func(namespace, name string)
	Events        record.EventRecorder
	ClusterDomain string
	// DNS is the address of the cluster's name server.
	DNS netip.Addr
	// HostPaths are the directories of this machine that pods may see.
	HostPaths []string
	// StopWithin bounds the grace of pods when Run ends.
	StopWithin time.Duration
	Clock      clock.Clock
	// Out gets what the user should read.
	Out io.Writer
	Log *slog.Logger
}

// Runner runs the containers of pods.
type Runner struct {
	config  Config
	printer printer
	log     *slog.Logger
	// unlimited says once that limits mean nothing here.
	unlimited sync.Once

	mu      sync.Mutex
	workers map[types.UID]*worker
	group   *lifecycle.Group
	ctx     context.Context // that of Run
}

// New makes a Runner; nothing runs before Run.
func New(config Config) *Runner {
	return &Runner{config: config, printer: printer{config.Out}, log: config.Log, workers: map[types.UID]*worker{}}
}

// Run runs what Sync asks for until ctx ends, and then ends all pods, each within
// its grace or StopWithin.
func (r *Runner) Run(ctx context.Context, ready func()) error {
	group, groupCtx := lifecycle.NewGroup(context.WithoutCancel(ctx))
	r.mu.Lock()
	r.group, r.ctx = group, groupCtx
	r.mu.Unlock()
	if err := r.sweep(); err != nil {
		r.log.Warn("files of pods that have gone are left", "error", err)
	}
	ready()
	select {
	case <-ctx.Done():
	case <-groupCtx.Done(): // a panic of a worker
	case <-r.config.Sandbox.Done():
	}
	r.mu.Lock()
	for _, w := range r.workers {
		w.terminate(min(w.grace(), r.config.StopWithin))
	}
	r.group = nil
	r.mu.Unlock()
	if err := group.Wait(); err != nil {
		return err
	}
	select {
	case <-r.config.Sandbox.Done():
		if ctx.Err() == nil {
			return r.config.Sandbox.Err()
		}
	default:
	}
	return ctx.Err()
}

func (r *Runner) podsDir() string { return filepath.Join(r.config.Dir, "pods") }
func (r *Runner) claims() string  { return filepath.Join(r.config.Dir, "claims") }

// Runs reports whether a container of the pod has something to run. The error
// is about what the pod says of that.
func (r *Runner) Runs(pod *corev1.Pod) (bool, error) { return r.config.Programs.Runs(pod) }

// Sync sees to it that a pod runs, at its addresses. The pod is complete.
func (r *Runner) Sync(pod *corev1.Pod, addresses []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[pod.UID] != nil || r.group == nil {
		return
	}
	w, err := newWorker(r, pod.DeepCopy(), addresses)
	if err != nil {
		r.log.Warn("pod does not run", "pod", pod.Namespace+"/"+pod.Name, "error", err)
		return
	}
	r.workers[pod.UID] = w
	if limited(pod) {
		r.unlimited.Do(func() {
			r.printer.line("limits of resources and of processes are not enforced for pods that run (first: %s): they get what you may have", w.name())
		})
	}
	r.group.Go(fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name), func() error { return w.run(r.ctx) })
}

// limited reports whether a container of the pod has limits of resources.
func limited(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return c.Name != linkerd.ProxyContainerName && len(c.Resources.Limits) > 0
	})
}

// Status is that of a pod that runs or has run.
func (r *Runner) Status(uid types.UID) (kubelet.RunStatus, bool) {
	w := r.worker(uid)
	if w == nil {
		return kubelet.RunStatus{}, false
	}
	return w.status(), true
}

// End ends a pod within its grace, and reports whether nothing of it runs any more. If not, Changed
// is called when that is so.
func (r *Runner) End(uid types.UID, grace time.Duration) bool {
	w := r.worker(uid)
	if w == nil {
		return true
	}
	w.terminate(grace)
	return closed(w.over)
}

// Forget gives up what there is of a pod that is gone.
func (r *Runner) Forget(uid types.UID) {
	r.mu.Lock()
	w := r.workers[uid]
	delete(r.workers, uid)
	r.mu.Unlock()
	if w != nil {
		w.terminate(0)
	}
	r.removeFiles(filepath.Join(r.podsDir(), string(uid)))
}

// removeFiles removes a directory, also where a program has taken the right to write away.
func (r *Runner) removeFiles(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		r.log.Warn("files of a pod are not removed", "dir", dir, "error", err)
	}
}

func (r *Runner) worker(uid types.UID) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers[uid]
}
