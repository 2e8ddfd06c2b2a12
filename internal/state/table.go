package state

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// table writes the objects of one kind.
type table struct {
	kind  *KindInfo
	store *store
	// problems is where faults are said that objects of the table bring about.
	problems desk
	// derived tables are written in the same transactions.
	derived []*derived
}

func newTable(s *store, kind *KindInfo, problems desk) *table {
	s.addTable(kind)
	return &table{kind: kind, store: s, problems: problems}
}

// put stores obj (nil deletes key) in a transaction of its own.
func (t *table) put(key string, obj metav1.Object) outcome {
	return t.store.update(func(txn *transaction) { t.write(txn, key, obj) })
}

// write stores obj (nil deletes key), here and in derived tables. An object
// for which our own functions panic keeps its last version, and harms no other.
func (t *table) write(txn *transaction, key string, obj metav1.Object) {
	old := txn.get(t.kind.id, key)
	if obj == nil && old == nil {
		txn.hear(t.problems.say(t.kind, key))
		return
	}
	var values [][]string
	if obj != nil {
		fault := problems.Catch(func() {
			if t.kind.trim != nil {
				obj = t.kind.trim(obj)
			}
			values = t.kind.indexValues(obj)
		})
		if fault != nil {
			kept := old != nil && old.GetUID() == obj.GetUID()
			txn.hear(t.problems.say(t.kind, key, faulty(fault, kept)))
			if kept || old == nil {
				return
			}
			obj, values = nil, nil
		} else {
			txn.hear(t.problems.say(t.kind, key))
		}
	}
	if obj != nil && old != nil && old.GetResourceVersion() != "" && old.GetResourceVersion() == obj.GetResourceVersion() && old.GetUID() == obj.GetUID() {
		return
	}
	t.set(txn, key, old, obj, values)
	for _, d := range t.derived {
		d.follow(txn, key, obj)
	}
}

// set puts obj, which has values in the indexes, in the place of old; nil is none.
func (t *table) set(txn *transaction, key string, old, obj metav1.Object, values [][]string) {
	txn.set(t.kind, key, old, obj, values)
	change := Change{table: t, Kind: t.kind, Key: key, Revision: txn.revision}
	if old != nil {
		change.Old = old
	}
	if obj != nil {
		change.New = obj
	}
	txn.changes = append(txn.changes, change)
}

// replace makes the table hold exactly objs, and what it held of the objects in
// keep. One of the same name with another UID is another object.
func (t *table) replace(objs map[string]metav1.Object, keep map[string]types.UID) outcome {
	return t.store.update(func(txn *transaction) {
		for _, old := range txn.base[t.kind.id].objects.All {
			key := keyOf(old)
			if _, ok := objs[key]; ok {
				continue
			}
			if uid, ok := keep[key]; !ok || uid != old.GetUID() {
				t.write(txn, key, nil)
			}
		}
		for key, obj := range objs {
			t.write(txn, key, obj)
		}
	})
}

func (t *table) len() int { return t.contents().objects.Len() }

func (t *table) contents() *contents { return t.store.load().tables[t.kind.id] }

func (t *table) get(key string) (metav1.Object, bool) { return t.contents().objects.Get([]byte(key)) }

func (t *table) resourceVersion(key string) (string, bool) {
	obj, ok := t.get(key)
	if !ok {
		return "", false
	}
	return obj.GetResourceVersion(), true
}

// topics lists everything a reader of obj may have asked for to find it.
func (t *table) topics(obj metav1.Object, add func(Topic)) {
	add(Topic{t.kind, idxKey, keyOf(obj)})
	add(Topic{t.kind, idxNamespace, obj.GetNamespace()})
	add(Topic{t.kind, idxAll, ""})
	for position, ix := range t.kind.indexes {
		for _, key := range ix.keys(obj) {
			add(Topic{t.kind, idxSecondary + position, key})
		}
	}
}
