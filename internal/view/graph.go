package view

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Graph is all views over one State, and the one goroutine that keeps them
// current.
//
// How a change travels:
//  1. The State's subscription wakes Run, which takes the objects that changed
//     and the snapshot to which these changes lead.
//  2. Each change names the topics whose answers it may have changed; the
//     views that depend on one are marked dirty.
//  3. Dirty views are recomputed on that snapshot, those of earlier Sets
//     first. A result that differs is published, and makes the views that
//     used it dirty in turn; these belong to later Sets, so one pass suffices.
//     What made a view dirty first is the cause of its new version.
//
// A view that is acquired for the first time is computed by whoever acquires
// it, after the steps above for what has changed by then. So whenever the lock
// is free all views are right at one revision of the State, and versions that
// are read under it belong together.
//
// A function that panics concerns its view alone: the last version stays, the
// State's table of problems says so, and the function runs again when something
// changes that it had read.
type Graph struct {
	// Before is called before each view's function, with its Reader; nil calls
	// nothing. It is there for tests, which make a view panic with it, and is set
	// before the first view is acquired.
	Before func(r *Reader, family, key string)

	state *state.State
	sub   *state.Subscription

	// mu is held by whoever changes something, and by Together for reading.
	mu   sync.RWMutex
	sets []family
	// snapshot is what all views are right at; zero before the first one.
	snapshot state.Snapshot
	// dirty are the views to be computed anew, and why.
	dirty map[*node]*Cause
	// news is to be logged when the lock is free.
	news []*problems.News
	// byTopic and filtered lead from a topic to the views that asked for it.
	byTopic  map[state.Topic]nodes
	filtered map[state.Topic]map[*node][]func(any) bool
}

// Cause is the change that made a view be computed anew. Immutable.
type Cause struct {
	Kind *state.KindInfo
	// Key is "namespace/name".
	Key string
	// Revision is that from which on the change holds.
	Revision uint64
}

// String is "Service default/web".
func (c *Cause) String() string { return c.object("").String() }

func (c *Cause) object(cluster string) problems.Object {
	namespace, name, _ := strings.Cut(c.Key, "/")
	object := problems.ObjectOf(c.Kind.GVK, namespace, name)
	object.Cluster = cluster
	return object
}

// family is a Set, whatever it holds.
type family interface {
	each(func(*node))
}

// owner is the view that a node belongs to.
type owner interface {
	// recompute publishes the view's value anew if it differs, and says whether it did.
	recompute(*Reader, *Cause) bool
	// fail publishes that there is no value, if there is none from before, and
	// says whether there is one.
	fail(*problems.Fault) (kept bool)
	// forget takes the view out of its Set.
	forget()
	describe() (family, key string)
	info() Info
}

// node is what the graph knows of a view.
type node struct {
	owner owner
	level int
	refs  int
	// said is set while the view has problems in the table.
	said bool

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
		dirty:    map[*node]*Cause{},
		byTopic:  map[state.Topic]nodes{},
		filtered: map[state.Topic]map[*node][]func(any) bool{},
	}
}

// Run keeps the views current until ctx ends, and returns nil then.
func (g *Graph) Run(ctx context.Context) error {
	defer g.state.Unsubscribe(g.sub)
	for {
		g.Flush()
		if err := g.sub.Wait(ctx); err != nil {
			return nil
		}
	}
}

// Flush brings all views up to date with what the State holds now, on the
// caller's goroutine. Tests use it in place of Run, so that they need not wait.
func (g *Graph) Flush() {
	g.mu.Lock()
	defer g.unlock()
	g.catchUp()
}

// Size returns how many topics views depend on: zero once no view is held (B19).
func (g *Graph) Size() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.byTopic) + len(g.filtered)
}

// Together calls read while no change is on its way through the graph: the
// versions of whichever views it reads belong together, all being right at one
// revision. Read must not acquire or release views, nor block.
func (g *Graph) Together(read func()) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	read()
}

// revision is the one at which all views are right, 0 before the first view. The lock is held.
func (g *Graph) revision() uint64 {
	if g.snapshot == (state.Snapshot{}) {
		return 0
	}
	return g.snapshot.Revision()
}

// unlock frees the lock and then logs what was found, so that a terminal that
// stands still holds up no view.
func (g *Graph) unlock() {
	news := g.news
	g.news = nil
	g.mu.Unlock()
	for _, n := range news {
		n.Log()
	}
}

// ready prepares for a new view: all others are right at what the State holds
// now, so that it can be. The lock is held.
func (g *Graph) ready() {
	g.catchUp()
	if g.snapshot == (state.Snapshot{}) {
		// Nothing has changed since the graph was made. It is not taken there, as
		// tables can be added after that.
		g.snapshot = g.state.Snapshot()
	}
}

// catchUp makes all views right at what the State holds now. The lock is held.
func (g *Graph) catchUp() {
	changes, snapshot := g.sub.Take()
	if len(changes) == 0 {
		return
	}
	g.snapshot = snapshot
	for _, change := range changes {
		var cause *Cause
		mark := func(n *node) {
			if _, already := g.dirty[n]; already {
				return
			}
			if cause == nil {
				cause = &Cause{change.Kind, change.Key, change.Revision}
			}
			g.dirty[n] = cause
		}
		change.Topics(func(t state.Topic) {
			for n := range g.byTopic[t].all {
				mark(n)
			}
			for n, relevant := range g.filtered[t] {
				if _, already := g.dirty[n]; !already && mayMatter(relevant, change) {
					mark(n)
				}
			}
		})
	}
	g.settle()
}

// mayMatter tells whether a change concerns a view. Where a predicate panics
// the view is asked, which has a last version to keep.
func mayMatter(predicates []func(any) bool, change state.Change) bool {
	matters := true
	problems.Catch(func() { matters = anyRelevant(predicates, change) })
	return matters
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
	for level := 0; level < len(g.sets) && len(g.dirty) > 0; level++ {
		for n, cause := range g.dirty {
			if n.level != level {
				continue
			}
			delete(g.dirty, n)
			if !g.compute(n, cause) {
				continue
			}
			for user := range n.usedBy {
				if _, already := g.dirty[user]; !already {
					g.dirty[user] = cause
				}
			}
		}
	}
}

// compute runs a view's function and moves its dependencies. The lock is held.
// It returns whether a new value was published.
func (g *Graph) compute(n *node, cause *Cause) (changed bool) {
	r := &Reader{Reader: g.snapshot.TrackingReader(), graph: g, node: n}
	defer func() {
		if fault := problems.Recovered(recover()); fault != nil {
			g.failed(n, r, cause, fault)
		}
		g.depend(n, r)
		g.say(n, r.problems)
	}()
	if g.Before != nil {
		family, key := n.owner.describe()
		g.Before(r, family, key)
	}
	return n.owner.recompute(r, cause)
}

// failed reports a view whose function panicked.
func (g *Graph) failed(n *node, r *Reader, cause *Cause, fault *problems.Fault) {
	family, key := n.owner.describe()
	p := problems.Problem{
		Object:   problems.Object{Cluster: g.state.Cluster(), Kind: "view", Name: family + " " + key},
		Message:  fault.Error(),
		Instead:  "calls that need it end with UNAVAILABLE",
		Severity: problems.Error,
	}
	if n.owner.fail(fault) {
		p.Instead = "those who follow it keep its last version"
	}
	if cause != nil {
		p.Object = cause.object(g.state.Cluster())
		p.Message += ", in the view " + family + " of " + key
	}
	r.Report(p)
}

// subject is under which name a view says what is wrong.
func (g *Graph) subject(family, key string) (source, subject string) {
	source, _, _ = strings.Cut(family, "/")
	return source, g.state.Cluster() + "/" + family + "/" + key
}

// say makes found all that is wrong with what a view read. The lock is held.
func (g *Graph) say(n *node, found []problems.Problem) {
	if len(found) == 0 && !n.said {
		return
	}
	n.said = len(found) > 0
	family, key := n.owner.describe()
	source, subject := g.subject(family, key)
	if news := g.state.Problems().Record(source, subject, found...); news != nil {
		g.news = append(g.news, news)
	}
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
	if n.said {
		family, key := n.owner.describe()
		g.state.Problems().Retire(g.subject(family, key))
	}
	n.owner.forget()
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
