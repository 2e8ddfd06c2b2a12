package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// Key names an object for which something is written: itself, its status, or
// what belongs to it.
type Key struct {
	Kind            *state.KindInfo
	Namespace, Name string
}

func (k Key) String() string { return k.Kind.Name + " " + k.Namespace + "/" + k.Name }

// Plan is what has to be written for an object, as of one snapshot. Immutable.
type Plan interface {
	// Empty is true when nothing has to be written.
	Empty() bool
	// Version is the resourceVersion that an object which Write may write had in
	// the snapshot, "" if it was not there.
	Version(name string) string
}

// Written has the resourceVersions of what was written by name, "" for what was deleted.
type Written map[string]string

// Refused is an error that the same plan would meet again.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns the error itself.
func (r *Refused) Unwrap() error { return r.Err }

// Config is what a Loop needs.
type Config[P Plan] struct {
	State *state.State
	// Plans has a view for each object of Kinds. Plans that differ in the version
	// of an object they are based on are different.
	Plans *view.Set[Key, P]
	Kinds []*state.KindInfo
	// Write carries out a plan. It returns what was written, also if some of it
	// failed. After an error it is called again, unless the error is Refused.
	Write func(ctx context.Context, key Key, plan P) (Written, error)
	Lease lease.Config
	// Workers is how many plans are carried out at once.
	Workers int
	// Gather is how long a plan waits for changes that follow closely.
	Gather time.Duration
	// Patience is how long the State may take to show what was written, before
	// plans that do not know of it count again; 0 is for ever. It has to be short
	// where somebody may delete what was written before the State shows it.
	Patience time.Duration
	// Backoff returns what decides how long to wait after an error.
	Backoff func() workqueue.TypedRateLimiter[Key]
	// Retries is how often Write is called again after an error; 0 is without end.
	Retries int
	// GaveUp is called after the last attempt; nil if there is no last one.
	GaveUp func(Key)
	// Source is under which name objects that cannot be written are told of as problems of State.
	Source string
	// Left is called at the end of a term with the number of objects that waited.
	Left func(int)
	// Queue names the queue in Metrics, which may be nil.
	Queue   string
	Metrics workqueue.MetricsProvider
}

// Loop carries out plans while it holds its Lease.
//
//  1. For each object that there is, the view of its plan is held. A view that
//     was computed and has a plan which is not empty puts its object into a queue.
//  2. A worker takes an object and carries out its newest plan, each plan once:
//     what it has made of the cluster comes back as a new one.
//  3. What was written is remembered until a plan is based on it. A plan that is
//     based on something older is not carried out: it would repeat the writes.
//  4. After an error the same plan, or a newer one, is tried again.
type Loop[P Plan] struct{ config Config[P] }

// New returns a loop. It starts nothing.
func New[P Plan](config Config[P]) *Loop[P] { return &Loop[P]{config} }

// Run carries out plans while the Lease is held, until ctx ends; it returns nil
// then. The views must be kept current meanwhile.
func (l *Loop[P]) Run(ctx context.Context) error {
	if l.config.State.WaitSynced(ctx) != nil {
		return nil
	}
	return lease.Run(ctx, l.config.Lease, l.Lead)
}

// Lead is Run without a Lease, for whoever is alone.
func (l *Loop[P]) Lead(ctx context.Context) error {
	sub := l.config.State.Subscribe()
	defer l.config.State.Unsubscribe(sub)
	t := newTerm(l.config)
	defer t.release()
	defer l.config.Plans.Follow(t.planned)()

	group, ctx := lifecycle.NewGroup(ctx)
	group.Go("changes", func() error {
		defer t.queue.ShutDown()
		defer func() { l.config.Left(t.queue.Len()) }()
		return t.follow(ctx, sub)
	})
	for n := range l.config.Workers {
		group.Go(fmt.Sprintf("worker %d", n), func() error {
			for t.next(ctx) {
			}
			return nil
		})
	}
	return group.Wait()
}

// follow holds the plans of the objects that there are until ctx ends.
func (t *term[P]) follow(ctx context.Context, sub *state.Subscription) error {
	snapshot := t.config.State.Snapshot()
	for _, kind := range t.config.Kinds {
		for key := range snapshot.Keys(kind) {
			t.appeared(keyOf(kind, key))
		}
	}
	for {
		changes, err := sub.Next(ctx)
		if err != nil {
			return nil
		}
		for _, change := range changes {
			switch {
			case !slices.Contains(t.config.Kinds, change.Kind):
			case change.New != nil:
				t.appeared(keyOf(change.Kind, change.Key))
			default:
				t.gone(keyOf(change.Kind, change.Key))
			}
		}
	}
}

func keyOf(kind *state.KindInfo, key string) Key {
	namespace, name, _ := strings.Cut(key, "/")
	return Key{kind, namespace, name}
}
