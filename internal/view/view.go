package view

import (
	"fmt"
	"sync/atomic"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Reader is what a view's function reads through: the cluster's objects by the
// functions of package state (pass r.Reader), and other views by Use. All of
// it is recorded, as is what the function finds wrong.
type Reader struct {
	*state.Reader

	graph    *Graph
	node     *node
	uses     map[*node]struct{}
	problems []problems.Problem
}

// Report notes something that is wrong with an object that was read: everything
// that is, each time. It is in the State's table of problems as long as a view
// says it, under the first part of the family's name.
func (r *Reader) Report(found ...problems.Problem) {
	for _, p := range found {
		p.Object.Cluster = r.graph.state.Cluster()
		r.problems = append(r.problems, p)
	}
}

// Func computes the value of the view at key. It must be a pure function of
// what it reads through r, of key, and of previous (nil at first), which is
// there so that parts that stay equal can be kept. Its result is shared and
// never changed after.
type Func[K comparable, V any] func(r *Reader, key K, previous *V) V

// Set is a family of views with one function.
type Set[K comparable, V any] struct {
	graph   *Graph
	name    string
	level   int
	compute Func[K, V]
	equal   func(a, b V) bool
	views   map[K]*View[K, V]
	// computed is told of values, see Follow.
	computed func(K, V)
}

// NewSet adds a family to the graph, under a name that is unique there: whom it
// is for and what its views are, such as "destination/endpoints". Its function
// may Use views of families that were added before. A result for which
// equal(previous, result) holds is not published.
func NewSet[K comparable, V any](g *Graph, name string, compute Func[K, V], equal func(a, b V) bool) *Set[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &Set[K, V]{graph: g, name: name, level: len(g.sets), compute: compute, equal: equal, views: map[K]*View[K, V]{}}
	g.sets = append(g.sets, s)
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
	// Revision is that of the snapshot that Value was computed from, the first
	// at which it held.
	Revision uint64
	// Cause is the change that led to this version; nil for the first one.
	Cause *Cause
	// Fault is why there is no Value: the view's function has panicked each time
	// so far. Nil nearly always.
	Fault *problems.Fault

	superseded chan struct{}
}

// Superseded is closed once the view has a newer version.
func (v *Version[V]) Superseded() <-chan struct{} { return v.superseded }

// Acquire returns the view at key, computing it if nobody holds it yet. Give
// it back with Release.
func (s *Set[K, V]) Acquire(key K) *View[K, V] {
	s.graph.mu.Lock()
	defer s.graph.unlock()
	if _, held := s.views[key]; !held {
		s.graph.ready()
	}
	return s.acquire(key)
}

// acquire takes a reference. The lock is held.
func (s *Set[K, V]) acquire(key K) *View[K, V] {
	v, ok := s.views[key]
	if ok {
		v.node.refs++
		return v
	}
	v = &View[K, V]{Key: key, set: s}
	v.node = node{owner: v, level: s.level, refs: 1}
	s.views[key] = v
	s.graph.compute(&v.node, nil)
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
	s.graph.mu.RLock()
	defer s.graph.mu.RUnlock()
	return len(s.views)
}

func (s *Set[K, V]) each(visit func(*node)) {
	for _, v := range s.views {
		visit(&v.node)
	}
}

// Release gives back what Acquire returned. Call it once.
func (v *View[K, V]) Release() {
	v.set.graph.mu.Lock()
	defer v.set.graph.unlock()
	v.set.graph.release(&v.node)
}

// Current returns the newest version. It never blocks.
func (v *View[K, V]) Current() *Version[V] { return v.current.Load() }

// recompute runs the function and publishes a result that differs. The graph's lock is held.
func (v *View[K, V]) recompute(r *Reader, cause *Cause) bool {
	before := v.current.Load()
	var previous *V
	number := uint64(1)
	if before != nil {
		number = before.Number + 1
		if before.Fault == nil {
			previous = &before.Value
		}
	}
	value := v.set.compute(r, v.Key, previous)
	changed := previous == nil || !v.set.equal(*previous, value)
	if changed {
		v.publish(&Version[V]{Value: value, Number: number, Revision: v.set.graph.snapshot.Revision(), Cause: cause})
	}
	if v.set.computed != nil {
		v.set.computed(v.Key, value)
	}
	return changed
}

func (v *View[K, V]) publish(version *Version[V]) {
	version.superseded = make(chan struct{})
	if before := v.current.Swap(version); before != nil {
		close(before.superseded)
	}
}

func (v *View[K, V]) fail(fault *problems.Fault) (kept bool) {
	before := v.current.Load()
	if before == nil {
		v.publish(&Version[V]{Revision: v.set.graph.snapshot.Revision(), Fault: fault})
	}
	return before != nil && before.Fault == nil
}

func (v *View[K, V]) forget() { delete(v.set.views, v.Key) }

func (v *View[K, V]) describe() (family, key string) { return v.set.name, fmt.Sprintf("%v", v.Key) }

// Use reads another view from within a view's function: the value at key of an
// earlier family. The using view is recomputed when that value changes.
func Use[K comparable, V any](r *Reader, s *Set[K, V], key K) V {
	if s.level >= r.node.level {
		panic("view: a family can use only families added before it")
	}
	v, held := s.views[key]
	if held {
		if _, already := r.uses[&v.node]; already {
			return v.value()
		}
		if _, before := r.node.uses[&v.node]; before {
			// Keep the reference that the last computation took.
			r.use(&v.node)
			return v.value()
		}
	}
	v = s.acquire(key)
	if v.node.usedBy == nil {
		v.node.usedBy = map[*node]struct{}{}
	}
	v.node.usedBy[r.node] = struct{}{}
	r.use(&v.node)
	return v.value()
}

// value is the newest value, for a function that uses it. What has none fails
// those who use it too, until it has one.
func (v *View[K, V]) value() V {
	now := v.current.Load()
	if now.Fault != nil {
		panic(now.Fault)
	}
	return now.Value
}

// use records that a view was read. Most views read none.
func (r *Reader) use(n *node) {
	if r.uses == nil {
		r.uses = map[*node]struct{}{}
	}
	r.uses[n] = struct{}{}
}
