package view

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Graph is all views over one State, and the one goroutine that keeps them
// current.
//
// How a change travels:
//  1. The State's subscription wakes Run with the objects that changed.
//  2. Each change names the topics whose answers it may have changed; the
//     views that depend on one are marked dirty.
//  3. Dirty views are recomputed on one new snapshot, those of earlier Sets
//     first. A result that differs is published, and makes the views that
//     used it dirty in turn; these belong to later Sets, so one pass suffices.
//
// A view that is acquired for the first time is computed by whoever acquires
// it, under the same lock as step 3: it cannot miss a change, since its
// snapshot holds at least the changes that step 3 has seen.
type Graph struct {
	state *state.State
	sub   *state.Subscription

	mu     sync.Mutex
	levels int
	dirty  map[*node]struct{}
	// byTopic and filtered lead from a topic to the views that asked for it.
	byTopic  map[state.Topic]nodes
	filtered map[state.Topic]map[*node][]func(any) bool
}

// node is what the graph knows of a view.
type node struct {
	level int
	refs  int
	// recompute publishes the view's value anew if it differs, and says whether it did.
	recompute func(*Reader) bool
	// forget takes the view out of its Set.
	forget func()

	topics   []state.Topic
	filtered []state.FilteredDep
	uses     map[*node]struct{}
	usedBy   map[*node]struct{}
}

// NewGraph returns a graph over st, subscribed to its changes. It starts nothing.
func NewGraph(st *state.State) *Graph {
	return &Graph{
		state:    st,
		sub:      st.Subscribe(),
		dirty:    map[*node]struct{}{},
		byTopic:  map[state.Topic]nodes{},
		filtered: map[state.Topic]map[*node][]func(any) bool{},
	}
}

// Run keeps the views current until ctx ends, and returns nil then.
func (g *Graph) Run(ctx context.Context) error {
	defer g.state.Unsubscribe(g.sub)
	for {
		changes, err := g.sub.Next(ctx)
		if err != nil {
			return nil
		}
		g.apply(changes)
	}
}

// Flush brings all views up to date with what the State holds now, on the
// caller's goroutine. Tests use it in place of Run, so that they need not wait.
func (g *Graph) Flush() { g.apply(g.sub.Take()) }

// Size returns how many topics views depend on: zero once no view is held (B19).
func (g *Graph) Size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byTopic) + len(g.filtered)
}

func (g *Graph) apply(changes []state.Change) {
	if len(changes) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, change := range changes {
		change.Topics(func(t state.Topic) {
			for n := range g.byTopic[t].all {
				g.dirty[n] = struct{}{}
			}
			for n, relevant := range g.filtered[t] {
				if _, already := g.dirty[n]; !already && anyRelevant(relevant, change) {
					g.dirty[n] = struct{}{}
				}
			}
		})
	}
	g.settle()
}

func anyRelevant(predicates []func(any) bool, change state.Change) bool {
	for version := range change.Versions() {
		for _, relevant := range predicates {
			if relevant(version) {
				return true
			}
		}
	}
	return false
}

// settle recomputes dirty views until there are none. The lock is held.
func (g *Graph) settle() {
	if len(g.dirty) == 0 {
		return
	}
	snapshot := g.state.Snapshot()
	for level := 0; level < g.levels && len(g.dirty) > 0; level++ {
		for n := range g.dirty {
			if n.level != level {
				continue
			}
			delete(g.dirty, n)
			if g.compute(n, snapshot) {
				for user := range n.usedBy {
					g.dirty[user] = struct{}{}
				}
			}
		}
	}
}

// compute runs a view's function and moves its dependencies. The lock is held.
// It returns whether a new value was published.
func (g *Graph) compute(n *node, snapshot state.Snapshot) bool {
	r := &Reader{Reader: snapshot.TrackingReader(), graph: g, snapshot: snapshot, node: n}
	changed := n.recompute(r)
	g.depend(n, r)
	return changed
}

// depend makes n depend on what r has read, and on nothing else.
func (g *Graph) depend(n *node, r *Reader) {
	topics, filtered := r.Dependencies()
	g.setTopics(n, topics, filtered)
	before := n.uses
	n.uses = r.uses
	for used := range before {
		if _, still := r.uses[used]; !still {
			delete(used.usedBy, n)
			g.release(used)
		}
	}
}

// release gives back one reference. The lock is held.
func (g *Graph) release(n *node) {
	n.refs--
	if n.refs > 0 {
		return
	}
	delete(g.dirty, n)
	g.setTopics(n, nil, nil)
	n.forget()
	for used := range n.uses {
		delete(used.usedBy, n)
		g.release(used)
	}
	n.uses = nil
}

func (g *Graph) setTopics(n *node, topics map[state.Topic]struct{}, filtered []state.FilteredDep) {
	kept := 0
	for _, t := range n.topics {
		if _, still := topics[t]; still {
			kept++
		} else {
			if left := g.byTopic[t].without(n); left == (nodes{}) {
				delete(g.byTopic, t)
			} else {
				g.byTopic[t] = left
			}
		}
	}
	if kept < len(topics) {
		for t := range topics {
			if views := g.byTopic[t]; !views.has(n) {
				g.byTopic[t] = views.with(n)
			}
		}
	}
	if kept < max(len(topics), len(n.topics)) {
		// As a list: there are as many views as streams, and most have two or three topics.
		n.topics = slices.AppendSeq(make([]state.Topic, 0, len(topics)), maps.Keys(topics))
	}
	for _, dep := range n.filtered {
		delete(g.filtered[dep.Topic], n)
		if len(g.filtered[dep.Topic]) == 0 {
			delete(g.filtered, dep.Topic)
		}
	}
	for _, dep := range filtered {
		if g.filtered[dep.Topic] == nil {
			g.filtered[dep.Topic] = map[*node][]func(any) bool{}
		}
		g.filtered[dep.Topic][n] = append(g.filtered[dep.Topic][n], dep.Relevant)
	}
	n.filtered = filtered
}

// nodes is a set of views. Most topics have one view, for which a map would
// take more memory than all else that a view needs.
type nodes struct {
	one  *node
	more *map[*node]struct{}
}

func (s nodes) has(n *node) bool {
	if s.one == n || s.more == nil {
		return s.one == n
	}
	_, ok := (*s.more)[n]
	return ok
}

func (s nodes) with(n *node) nodes {
	switch {
	case s.one == nil || s.one == n:
		s.one = n
	case s.more == nil:
		s.more = &map[*node]struct{}{n: {}}
	default:
		(*s.more)[n] = struct{}{}
	}
	return s
}

func (s nodes) without(n *node) nodes {
	if s.one == n {
		s.one = nil
		for other := range s.all {
			s.one = other
			break
		}
		n = s.one
	}
	if s.more != nil {
		delete(*s.more, n)
		if len(*s.more) == 0 {
			s.more = nil
		}
	}
	return s
}

func (s nodes) all(yield func(*node) bool) {
	if s.one != nil && !yield(s.one) || s.more == nil {
		return
	}
	for n := range *s.more {
		if !yield(n) {
			return
		}
	}
}
