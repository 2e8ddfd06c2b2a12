package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// term is one time that the Lease is held.
type term[P Plan] struct {
	config Config[P]
	queue  workqueue.TypedRateLimitingInterface[Key]

	mu      sync.Mutex
	objects map[Key]*object[P]

	// troubled are the objects of which a problem is told.
	troubled sync.Map
}

// object is one that there is. Besides the view, it belongs to the worker that
// has its key from the queue.
type object[P Plan] struct {
	plan *view.View[Key, P]
	// done is the number of the plan that was carried out, 0 without one.
	done uint64
	// written is what it wrote, with the time after which that counts no more.
	written Written
	until   time.Time
}

func newTerm[P Plan](config Config[P]) *term[P] {
	return &term[P]{
		config:  config,
		objects: map[Key]*object[P]{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(config.Backoff(),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: config.Queue, MetricsProvider: config.Metrics}),
	}
}

func (t *term[P]) appeared(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects[key] == nil {
		t.objects[key] = &object[P]{plan: t.config.Plans.Acquire(key)}
	}
}

func (t *term[P]) gone(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.objects[key]; o != nil {
		o.plan.Release()
		delete(t.objects, key)
	}
	t.mend(key)
}

// release gives all views back.
func (t *term[P]) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.objects {
		o.plan.Release()
	}
	clear(t.objects)
	t.troubled.Range(func(key, _ any) bool {
		t.mend(key.(Key))
		return true
	})
}

// planned takes note of a plan. The views wait while it does.
func (t *term[P]) planned(key Key, plan P) {
	switch _, troubled := t.troubled.Load(key); {
	case plan.Empty() && !troubled:
	case t.config.Gather > 0:
		t.queue.AddAfter(key, t.config.Gather)
	default:
		t.queue.Add(key)
	}
}

// next does what is to be done for one object; false means that there is nothing more to come.
func (t *term[P]) next(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false // what still waits is counted
	}
	key, stopped := t.queue.Get()
	if stopped {
		return false
	}
	defer t.queue.Done(key)
	t.mu.Lock()
	o := t.objects[key]
	t.mu.Unlock()
	if o == nil || ctx.Err() != nil {
		t.queue.Forget(key)
		return true
	}
	t.carryOut(ctx, key, o)
	return true
}

func (t *term[P]) carryOut(ctx context.Context, key Key, o *object[P]) {
	plan := o.plan.Current()
	if plan.Value.Empty() {
		t.queue.Forget(key)
		t.mend(key)
		return
	}
	if o.shown(plan.Value) {
		if plan.Number == o.done {
			return // it did not lead to what was planned, and would not do so now
		}
	} else if t.config.Patience == 0 {
		return
	} else if left := time.Until(o.until); left > 0 {
		t.queue.AddAfter(key, left)
		return
	}
	written, err := t.write(ctx, key, plan.Value)
	o.written, o.until = written, time.Now().Add(t.config.Patience)
	var refused *Refused
	switch {
	case err == nil:
		o.done = plan.Number
		t.queue.Forget(key)
		t.mend(key)
	case ctx.Err() != nil:
	case errors.As(err, &refused):
		o.done = plan.Number
		t.queue.Forget(key)
		t.tell(key, err, "it is not tried again before something changes")
	case t.config.Retries == 0 || t.queue.NumRequeues(key) < t.config.Retries:
		t.queue.AddRateLimited(key)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			// Else a newer version is on its way here, or it is gone.
			t.tell(key, err, "it is tried again")
		}
	default:
		o.done = plan.Number
		t.queue.Forget(key)
		t.config.GaveUp(key)
		t.tell(key, err, "it is not tried again before something changes")
	}
}

// write carries out a plan. A fault of ours ends that attempt, and nothing else.
func (t *term[P]) write(ctx context.Context, key Key, plan P) (written Written, err error) {
	if fault := problems.Catch(func() { written, err = t.config.Write(ctx, key, plan) }); fault != nil {
		return nil, &Refused{Err: fault}
	}
	return written, err
}

// tell tells of an object that cannot be written.
func (t *term[P]) tell(key Key, err error, instead string) {
	t.troubled.Store(key, nil)
	gvk := key.Kind.GVK
	t.config.State.Problems().Say(t.config.Source, key.String(), problems.Problem{
		Object:   problems.Object{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: key.Namespace, Name: key.Name},
		Message:  "not written by " + t.config.Source + ": " + err.Error(),
		Instead:  instead,
		Severity: problems.Warning,
	})
}

// mend takes back what was told of an object.
func (t *term[P]) mend(key Key) {
	if _, troubled := t.troubled.LoadAndDelete(key); troubled {
		t.config.State.Problems().Say(t.config.Source, key.String())
	}
}

// shown tells whether a plan is based on what was written, or on what came after that.
func (o *object[P]) shown(plan P) bool {
	for name, version := range o.written {
		based := plan.Version(name)
		if (based == "") != (version == "") {
			return false
		}
		if order, err := resourceversion.CompareResourceVersion(based, version); err == nil && order < 0 {
			return false
		}
	}
	return true
}
