package state

import (
	"context"
	"iter"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topic names something that can be asked of a snapshot: an object by key, a
// namespace's objects, all objects of a kind, or an index entry.
type Topic struct {
	kind  *KindInfo
	index int
	key   string
}

// String says what was asked: "pod default/web", "every pod in default",
// "every pod with ip 10.0.0.1".
func (t Topic) String() string {
	switch t.index {
	case idxKey:
		return t.kind.Name + " " + t.key
	case idxNamespace:
		return "every " + t.kind.Name + " in " + t.key
	case idxAll:
		return "every " + t.kind.Name
	}
	return "every " + t.kind.Name + " with " + t.kind.indexes[t.index-idxSecondary].name + " " + t.key
}

// Change is one object's way from one version to another.
type Change struct {
	Kind *KindInfo
	// Key is "namespace/name".
	Key string
	// Old is nil for an object that is new, New is nil for one that is gone;
	// both are nil for one that came and went before anyone looked.
	Old, New any
	// Between are the versions after Old and before New, in order. A snapshot
	// taken in the meantime may hold one of them.
	Between []any
	// Revision is that of the snapshots from which on New holds.
	Revision uint64

	table *table
}

// Topics calls add for everything that a reader of any of the versions may
// have asked for. A topic can come more than once.
func (c Change) Topics(add func(Topic)) {
	for version := range c.Versions() {
		c.table.topics(version.(metav1.Object), add)
	}
}

// Versions returns all versions of the object that the change is about.
func (c Change) Versions() iter.Seq[any] {
	return func(yield func(any) bool) {
		if c.Old != nil && !yield(c.Old) {
			return
		}
		for _, version := range c.Between {
			if !yield(version) {
				return
			}
		}
		if c.New != nil {
			yield(c.New)
		}
	}
}

// Subscription collects changes until they are taken. Several changes of one
// object become one; a slow taker holds up nobody.
type Subscription struct {
	wake chan struct{}

	mu      sync.Mutex
	order   []changeKey
	pending map[changeKey]Change
	// reached is the version that all changes so far have led to; nil before the first.
	reached *version
}

type changeKey struct {
	kind int
	key  string
}

func newSubscription() *Subscription {
	return &Subscription{wake: make(chan struct{}, 1), pending: map[changeKey]Change{}}
}

func (s *Subscription) add(to *version, changes []Change) {
	s.mu.Lock()
	s.reached = to
	for _, c := range changes {
		k := changeKey{c.Kind.id, c.Key}
		if earlier, ok := s.pending[k]; ok {
			if earlier.New != nil {
				c.Between = append(earlier.Between, earlier.New)
			} else {
				c.Between = earlier.Between
			}
			c.Old = earlier.Old
		} else {
			s.order = append(s.order, k)
		}
		s.pending[k] = c
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next waits for changes and takes all there are. It returns the context's
// error once that is done. A snapshot taken afterwards holds at least the
// returned versions.
func (s *Subscription) Next(ctx context.Context) ([]Change, error) {
	for {
		if changes, _ := s.Take(); len(changes) > 0 {
			return changes, nil
		}
		if err := s.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// Wait waits until there may be something to take. It returns the context's
// error once that is done.
func (s *Subscription) Wait(ctx context.Context) error {
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Take returns the changes that have collected, without waiting, and the
// snapshot to which they lead: it holds them and no later ones. Without any,
// there is no snapshot either.
func (s *Subscription) Take() ([]Change, Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return nil, Snapshot{}
	}
	changes := make([]Change, 0, len(s.order))
	for _, k := range s.order {
		changes = append(changes, s.pending[k])
	}
	s.order = nil
	s.pending = map[changeKey]Change{}
	return changes, Snapshot{s.reached}
}
