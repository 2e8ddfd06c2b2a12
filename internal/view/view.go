package view

import (
	"sync/atomic"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Reader is what a view's function reads through: the cluster's objects by the
// functions of package state (pass r.Reader), and other views by Use. All of
// it is recorded.
type Reader struct {
	*state.Reader

	graph    *Graph
	snapshot state.Snapshot
	node     *node
	uses     map[*node]struct{}
}

// Func computes the value of the view at key. It must be a pure function of
// what it reads through r, of key, and of previous (nil at first), which is
// there so that parts that stay equal can be kept. Its result is shared and
// never changed after.
type Func[K comparable, V any] func(r *Reader, key K, previous *V) V

// Set is a family of views with one function.
type Set[K comparable, V any] struct {
	graph   *Graph
	level   int
	compute Func[K, V]
	equal   func(a, b V) bool
	views   map[K]*View[K, V]
	// computed is told of values, see Follow.
	computed func(K, V)
}

// NewSet adds a family to the graph. Its function may Use views of families
// that were added before. A result for which equal(previous, result) holds is
// not published.
func NewSet[K comparable, V any](g *Graph, compute Func[K, V], equal func(a, b V) bool) *Set[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &Set[K, V]{graph: g, level: g.levels, compute: compute, equal: equal, views: map[K]*View[K, V]{}}
	g.levels++
	return s
}

// View is one shared value that changes over time. It lives while somebody
// holds it.
type View[K comparable, V any] struct {
	Key K

	set     *Set[K, V]
	node    node
	current atomic.Pointer[Version[V]]
}

// Version is one value of a view.
type Version[V any] struct {
	Value V
	// Number counts the view's versions from 1.
	Number uint64

	superseded chan struct{}
}

// Superseded is closed once the view has a newer version.
func (v *Version[V]) Superseded() <-chan struct{} { return v.superseded }

// Acquire returns the view at key, computing it if nobody holds it yet. Give
// it back with Release.
func (s *Set[K, V]) Acquire(key K) *View[K, V] {
	s.graph.mu.Lock()
	defer s.graph.mu.Unlock()
	return s.acquire(key, nil)
}

// acquire takes a reference. The lock is held. Without a snapshot it takes a new one.
func (s *Set[K, V]) acquire(key K, snapshot *state.Snapshot) *View[K, V] {
	v, ok := s.views[key]
	if ok {
		v.node.refs++
		return v
	}
	v = &View[K, V]{Key: key, set: s}
	v.node = node{
		level:     s.level,
		refs:      1,
		recompute: v.recompute,
		forget:    func() { delete(s.views, key) },
	}
	s.views[key] = v
	if snapshot == nil {
		now := s.graph.state.Snapshot()
		snapshot = &now
	}
	s.graph.compute(&v.node, *snapshot)
	return v
}

// Follow has told called with each view of the family that is computed from now
// on, and its value, also if that does not differ from the one before. All views
// wait meanwhile: told takes a note, and uses none. There is one follower at a
// time; stop ends it.
func (s *Set[K, V]) Follow(told func(key K, value V)) (stop func()) {
	s.graph.mu.Lock()
	defer s.graph.mu.Unlock()
	s.computed = told
	return func() {
		s.graph.mu.Lock()
		defer s.graph.mu.Unlock()
		s.computed = nil
	}
}

// Held returns how many views of the family are held.
func (s *Set[K, V]) Held() int {
	s.graph.mu.Lock()
	defer s.graph.mu.Unlock()
	return len(s.views)
}

// Release gives back what Acquire returned. Call it once.
func (v *View[K, V]) Release() {
	v.set.graph.mu.Lock()
	defer v.set.graph.mu.Unlock()
	v.set.graph.release(&v.node)
}

// Current returns the newest version. It never blocks.
func (v *View[K, V]) Current() *Version[V] { return v.current.Load() }

// recompute runs the function and publishes a result that differs. The graph's lock is held.
func (v *View[K, V]) recompute(r *Reader) bool {
	before := v.current.Load()
	var previous *V
	number := uint64(1)
	if before != nil {
		previous = &before.Value
		number = before.Number + 1
	}
	value := v.set.compute(r, v.Key, previous)
	if v.set.computed != nil {
		defer v.set.computed(v.Key, value)
	}
	if before != nil && v.set.equal(before.Value, value) {
		return false
	}
	v.current.Store(&Version[V]{Value: value, Number: number, superseded: make(chan struct{})})
	if before != nil {
		close(before.superseded)
	}
	return true
}

// Use reads another view from within a view's function: the value at key of an
// earlier family. The using view is recomputed when that value changes.
func Use[K comparable, V any](r *Reader, s *Set[K, V], key K) V {
	if s.level >= r.node.level {
		panic("view: a family can use only families added before it")
	}
	v, held := s.views[key]
	if held {
		if _, already := r.uses[&v.node]; already {
			return v.current.Load().Value
		}
		if _, before := r.node.uses[&v.node]; before {
			// Keep the reference that the last computation took.
			r.use(&v.node)
			return v.current.Load().Value
		}
	}
	v = s.acquire(key, &r.snapshot)
	if v.node.usedBy == nil {
		v.node.usedBy = map[*node]struct{}{}
	}
	v.node.usedBy[r.node] = struct{}{}
	r.use(&v.node)
	return v.current.Load().Value
}

// use records that a view was read. Most views read none.
func (r *Reader) use(n *node) {
	if r.uses == nil {
		r.uses = map[*node]struct{}{}
	}
	r.uses[n] = struct{}{}
}
