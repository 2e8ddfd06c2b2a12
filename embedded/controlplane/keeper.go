package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// keepers is how many objects are applied at once.
	keepers = 8
	// patience is how many attempts an object has before others no longer wait for it.
	patience = 5
	// changeDelay gathers the changes of an object: those of a status come in bursts.
	changeDelay = 100 * time.Millisecond
	// source is who says what is wrong with the objects.
	source = "objects"
)

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	// Client should be one whose writes no policy of a user refuses, without a limit of requests.
	Client *rest.Config
	// Describe says what the control plane is at the time.
	Describe func() Config
	// Problems gets what the API server refuses, and what holds the namespace.
	Problems *problems.Table
	Log      *slog.Logger
}

// Keeper keeps the objects of the control plane in the API server, and nothing
// else of them: fields that it does not name are left to others.
//
//  1. At the start, and whenever a certificate was replaced, all objects are
//     described anew and put into the queue.
//  2. A watch puts each of them into the queue that somebody changes or deletes.
//  3. A worker applies one object. One that is as it should be is not changed by
//     that. A version that differs from our own last write in its status alone is
//     none of the keeper's business. One that cannot become so in place, as it is immutable or has another
//     type, is deleted and made anew.
//  4. Without the namespace, or while it is being deleted, its objects are left
//     alone; when it is there they all are put into the queue.
//  5. What is refused is a problem and tried again. The others do without it.
type Keeper struct {
	config   KeeperConfig
	client   dynamic.Interface
	queue    workqueue.TypedRateLimitingInterface[ref]
	replaced chan struct{}

	mu      sync.Mutex
	objects map[ref]object
	// kept are the marks of the objects after our own last write, seen those that the watch told last.
	kept, seen map[ref]string
	// namespace is the UID of the namespace while objects can be made in it.
	namespace string
	// untried are the objects that the start waits for; tried is closed when there are none.
	untried map[ref]bool
	tried   chan struct{}
}

// NewKeeper prepares a keeper; it does no I/O.
func NewKeeper(config KeeperConfig) (*Keeper, error) {
	client, err := dynamic.NewForConfig(config.Client)
	if err != nil {
		return nil, fmt.Errorf("client for the control plane's objects: %w", err)
	}
	return newKeeper(config, client), nil
}

func newKeeper(config KeeperConfig, client dynamic.Interface) *Keeper {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{
		config: config, client: client, replaced: make(chan struct{}, 1),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[ref](20*time.Millisecond, 10*time.Second)),
		kept:  map[ref]string{},
		seen:  map[ref]string{},
		tried: make(chan struct{}),
	}
}

// CertificateReplaced makes Run describe the objects anew. It does not wait for that.
func (k *Keeper) CertificateReplaced() {
	select {
	case k.replaced <- struct{}{}:
	default:
	}
}

// Run keeps the objects until ctx ends. It calls ready once each is there, or
// refused.
func (k *Keeper) Run(ctx context.Context, ready func()) error {
	return k.run(ctx, ready, k.watch)
}

func (k *Keeper) run(ctx context.Context, ready func(), watch func(context.Context, *lifecycle.Group) error) error {
	if err := k.describe(); err != nil {
		return err
	}
	group, ctx := lifecycle.NewGroup(ctx)
	if err := watch(ctx, group); err != nil {
		return err
	}
	// One alone begins with the namespace: beside others it might come after what lies in it, which
	// would be written twice.
	k.next(ctx)
	for n := range keepers {
		group.Go(fmt.Sprintf("keeper %d", n), func() error {
			for k.next(ctx) {
			}
			return nil
		})
	}
	group.Go("certificates", func() error {
		defer k.queue.ShutDown()
		tried := k.tried
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tried:
				tried = nil
				ready()
			case <-k.replaced:
				if err := k.describe(); err != nil {
					return err
				}
			}
		}
	})
	return group.Wait()
}

// describe renders the objects and puts them into the queue, the namespace first.
func (k *Keeper) describe() error {
	objects, err := render(k.config.Describe())
	if err != nil {
		return err
	}
	k.mu.Lock()
	clear(k.kept)
	k.objects = make(map[ref]object, len(objects))
	first := k.untried == nil
	if first {
		k.untried = make(map[ref]bool, len(objects))
	}
	for _, o := range objects {
		k.objects[o.ref()] = o
		if first {
			k.untried[o.ref()] = true
		}
	}
	k.mu.Unlock()
	for _, o := range objects {
		k.queue.Add(o.ref())
	}
	return nil
}

// changed is told the mark of each version of an object; it is empty for one that is gone.
func (k *Keeper) changed(r ref, mark string) {
	k.mu.Lock()
	_, mine := k.objects[r]
	if mine {
		k.seen[r] = mark
	}
	own := k.isKept(r)
	k.mu.Unlock()
	if mine && !own {
		k.queue.AddAfter(r, changeDelay)
	}
}

// isKept reports that the watch has told nothing new of an object since our own last write. The caller holds mu.
func (k *Keeper) isKept(r ref) bool { return k.kept[r] != "" && k.kept[r] == k.seen[r] }

// next keeps one queued object, and returns false when the queue is shut down.
func (k *Keeper) next(ctx context.Context) bool {
	r, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(r)
	k.mu.Lock()
	o, mine := k.objects[r]
	there := k.namespace != "" || !o.namespaced
	// The watch tells of a write of ours before the server's answer to it is there.
	own := k.isKept(r)
	if !own {
		delete(k.kept, r)
	}
	k.mu.Unlock()
	if !mine || !there || own || ctx.Err() != nil {
		return true
	}
	err := k.keep(ctx, o)
	if ctx.Err() != nil {
		return true
	}
	k.judge(o, err)
	return true
}

// judge takes note of an attempt to keep an object.
func (k *Keeper) judge(o object, err error) {
	r := o.ref()
	var held *heldError
	switch {
	case err == nil:
		k.queue.Forget(r)
		k.config.Problems.Say(source, o.String())
		k.settle(func(other ref) bool { return other == r })
		return
	case errors.As(err, &held):
		// The next change of the namespace brings it back into the queue.
		k.queue.Forget(r)
		k.settle(func(other ref) bool { return other == r || other.namespace != "" })
	case k.queue.NumRequeues(r) < patience:
		k.config.Log.Info("object of the control plane not written, trying again", "object", o.String(), "error", err)
		k.queue.AddRateLimited(r)
		return
	default:
		k.queue.AddRateLimited(r)
		k.settle(func(other ref) bool { return other == r })
	}
	k.config.Problems.Say(source, o.String(), problems.Problem{
		Object:   problems.ObjectOf(o.GroupVersionKind(), o.GetNamespace(), o.GetName()),
		Severity: problems.Error, Message: err.Error(), Instead: "tools that look for it do not find it as it should be",
	})
}

// settle ends the wait of the start for some objects.
func (k *Keeper) settle(which func(ref) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.untried) == 0 {
		return
	}
	maps.DeleteFunc(k.untried, func(r ref, _ bool) bool { return which(r) })
	if len(k.untried) == 0 {
		close(k.tried)
	}
}

// keep makes an object what it should be.
func (k *Keeper) keep(ctx context.Context, o object) error {
	stored, err := k.apply(ctx, o)
	if apierrors.IsInvalid(err) && k.removeUnfit(ctx, o) {
		stored, err = k.apply(ctx, o)
	}
	if o.namespaced && (apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err)) {
		k.loseNamespace()
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	k.mu.Lock()
	k.kept[o.ref()] = mark(stored)
	k.mu.Unlock()
	if o.GetKind() != namespaceKind {
		return nil
	}
	if stored.GetDeletionTimestamp() != nil {
		k.setNamespace("")
		return &heldError{holders(stored)}
	}
	k.setNamespace(string(stored.GetUID()))
	return nil
}

// setNamespace takes note of a namespace, "" for none, and puts the objects into the queue that a new one lacks.
func (k *Keeper) setNamespace(uid string) {
	k.mu.Lock()
	fresh := uid != "" && uid != k.namespace
	k.namespace = uid
	var lacking []ref
	for r := range k.objects {
		if fresh && r.namespace != "" {
			delete(k.kept, r)
			lacking = append(lacking, r)
		}
	}
	k.mu.Unlock()
	for _, r := range lacking {
		k.queue.Add(r)
	}
}

// loseNamespace puts the namespace into the queue, as it is on its way out or gone.
func (k *Keeper) loseNamespace() {
	k.setNamespace("")
	k.mu.Lock()
	defer k.mu.Unlock()
	for r, o := range k.objects {
		if o.GetKind() == namespaceKind {
			k.queue.AddAfter(r, changeDelay)
		}
	}
}

func (k *Keeper) resource(o object) dynamic.ResourceInterface {
	if o.namespaced {
		return k.client.Resource(o.resource).Namespace(o.GetNamespace())
	}
	return k.client.Resource(o.resource)
}

// removeUnfit deletes the stored object, which cannot become o in place, and says whether it did.
func (k *Keeper) removeUnfit(ctx context.Context, o object) bool {
	if o.GetKind() == namespaceKind {
		return false
	}
	stored, err := k.resource(o).Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return false
	}
	uid := stored.GetUID()
	err = k.resource(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err == nil {
		k.config.Log.Info("object of the control plane made anew, as it cannot be changed", "object", o.String())
	}
	return err == nil
}
