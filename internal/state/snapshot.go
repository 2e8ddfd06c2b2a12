package state

import (
	"iter"

	"github.com/cilium/statedb/part"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Snapshot is one consistent, immutable view of all tables. It is cheap to
// take and to copy; holding one keeps the objects in it alive.
type Snapshot struct {
	// version has no table for a kind that the state was not configured to hold:
	// it reads as empty.
	version *version
}

// Revision counts the transactions that led to this snapshot. Of two snapshots
// of one State the one with the greater revision is the later one.
func (s Snapshot) Revision() uint64 { return s.version.revision }

// Reader reads a snapshot and remembers what it was asked, so that the result
// of a computation can be tied to the topics it depends on. The answers to
// Get, List and the like are shared objects: never change one.
//
// A Reader is for one goroutine.
type Reader struct {
	snapshot Snapshot
	track    bool
	deps     map[Topic]struct{}
	filtered []FilteredDep
}

// FilteredDep is a dependency on those objects of a topic for which Relevant
// holds, in their old or their new version.
type FilteredDep struct {
	Topic    Topic
	Relevant func(obj any) bool
}

// Keys returns the keys ("namespace/name") of all objects of a kind, in order.
func (s Snapshot) Keys(kind *KindInfo) iter.Seq[string] {
	return func(yield func(string) bool) {
		t := s.version.tables[kind.id]
		if t == nil {
			return
		}
		for key := range t.objects.All {
			if !yield(string(key)) {
				return
			}
		}
	}
}

// Reader returns a reader that does not remember.
func (s Snapshot) Reader() *Reader { return &Reader{snapshot: s} }

// TrackingReader returns a reader that remembers; see Dependencies.
func (s Snapshot) TrackingReader() *Reader {
	return &Reader{snapshot: s, track: true, deps: map[Topic]struct{}{}}
}

// Dependencies returns what has been read so far.
func (r *Reader) Dependencies() (map[Topic]struct{}, []FilteredDep) { return r.deps, r.filtered }

func (r *Reader) depend(t Topic) {
	if r.track {
		r.deps[t] = struct{}{}
	}
}

// Get returns the object, or false. Namespace is empty for cluster-wide kinds.
func Get[T Object](r *Reader, k *Kind[T], namespace, name string) (T, bool) {
	key := objectKey(namespace, name)
	r.depend(Topic{&k.KindInfo, idxKey, key})
	var none T
	t := r.snapshot.version.tables[k.id]
	if t == nil {
		return none, false
	}
	obj, ok := t.objects.Get([]byte(key))
	if !ok {
		return none, false
	}
	return obj.(T), true
}

// List returns a namespace's objects in order of name.
func List[T Object](r *Reader, k *Kind[T], namespace string) iter.Seq[T] {
	r.depend(Topic{&k.KindInfo, idxNamespace, namespace})
	return list(r, k, namespace)
}

// ListWhere returns those of a namespace's objects for which relevant holds,
// and depends on those alone: a change of an object that is irrelevant in
// both its versions is not a change of the answer. relevant may look at
// nothing but its argument and values that do not change while the dependency
// stands (what was itself read through this reader qualifies).
func ListWhere[T Object](r *Reader, k *Kind[T], namespace string, relevant func(T) bool) iter.Seq[T] {
	if r.track {
		r.filtered = append(r.filtered, FilteredDep{
			Topic:    Topic{&k.KindInfo, idxNamespace, namespace},
			Relevant: func(obj any) bool { return relevant(obj.(T)) },
		})
	}
	return func(yield func(T) bool) {
		for obj := range list(r, k, namespace) {
			if relevant(obj) && !yield(obj) {
				return
			}
		}
	}
}

func list[T Object](r *Reader, k *Kind[T], namespace string) iter.Seq[T] {
	t := r.snapshot.version.tables[k.id]
	if t == nil {
		return func(func(T) bool) {}
	}
	return objects[T](t.objects.Prefix([]byte(objectKey(namespace, ""))))
}

// All returns all objects of a kind in order of namespace and name.
func All[T Object](r *Reader, k *Kind[T]) iter.Seq[T] {
	r.depend(Topic{&k.KindInfo, idxAll, ""})
	t := r.snapshot.version.tables[k.id]
	if t == nil {
		return func(func(T) bool) {}
	}
	return objects[T](t.objects.Iterator())
}

// By returns the objects with key in the index, in order of namespace and name.
func By[T Object](r *Reader, k *Kind[T], ix Index[T], key string) iter.Seq[T] {
	r.depend(Topic{&k.KindInfo, ix.pos, key})
	t := r.snapshot.version.tables[k.id]
	if t == nil {
		return func(func(T) bool) {}
	}
	return objects[T](t.indexes[ix.pos-idxSecondary].Prefix(indexKey(key, "")))
}

// AppendBy appends what By returns to objs. It takes fewer allocations, for
// functions of which thousands run at one change.
func AppendBy[T Object](objs []T, r *Reader, k *Kind[T], ix Index[T], key string) []T {
	r.depend(Topic{&k.KindInfo, ix.pos, key})
	if t := r.snapshot.version.tables[k.id]; t != nil {
		for _, obj := range t.indexes[ix.pos-idxSecondary].Prefix(indexKey(key, "")).All {
			objs = append(objs, obj.(T))
		}
	}
	return objs
}

func objects[T Object](found part.Iterator[metav1.Object]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, obj := range found.All {
			if !yield(obj.(T)) {
				return
			}
		}
	}
}
