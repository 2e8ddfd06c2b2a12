package state

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// table writes the objects of one kind.
type table struct {
	kind  *KindInfo
	store *store
	// derived tables are written in the same transactions.
	derived []*derived
}

func newTable(s *store, kind *KindInfo) *table {
	s.addTable(kind)
	return &table{kind: kind, store: s}
}

// put stores obj (nil deletes key) in a transaction of its own and returns
// what changed.
func (t *table) put(key string, obj metav1.Object) []Change {
	return t.store.update(func(txn *transaction) []Change { return t.write(nil, txn, key, obj) })
}

// write stores obj (nil deletes key) and appends what changed, here and in derived tables, to changes.
func (t *table) write(changes []Change, txn *transaction, key string, obj metav1.Object) []Change {
	old := txn.get(t.kind.id, key)
	if obj == nil && old == nil {
		return changes
	}
	if obj != nil && t.kind.trim != nil {
		obj = t.kind.trim(obj)
	}
	if obj != nil && old != nil && old.GetResourceVersion() != "" && old.GetResourceVersion() == obj.GetResourceVersion() && old.GetUID() == obj.GetUID() {
		return changes
	}
	changes = append(changes, t.set(txn, key, old, obj))
	for _, d := range t.derived {
		if change, changed := d.follow(txn, key, obj); changed {
			changes = append(changes, change)
		}
	}
	return changes
}

// set puts obj in the place of old; nil is none.
func (t *table) set(txn *transaction, key string, old, obj metav1.Object) Change {
	txn.set(t.kind, key, old, obj)
	change := Change{table: t, Kind: t.kind, Key: key}
	if old != nil {
		change.Old = old
	}
	if obj != nil {
		change.New = obj
	}
	return change
}

// replace makes the table hold exactly objs, and what it held of the objects in
// keep. One of the same name with another UID is another object.
func (t *table) replace(objs map[string]metav1.Object, keep map[string]types.UID) []Change {
	return t.store.update(func(txn *transaction) []Change {
		var changes []Change
		for _, old := range txn.base[t.kind.id].objects.All {
			key := keyOf(old)
			if _, ok := objs[key]; ok {
				continue
			}
			if uid, ok := keep[key]; !ok || uid != old.GetUID() {
				changes = t.write(changes, txn, key, nil)
			}
		}
		for key, obj := range objs {
			changes = t.write(changes, txn, key, obj)
		}
		return changes
	})
}

func (t *table) len() int { return t.contents().objects.Len() }

func (t *table) contents() *contents { return t.store.load()[t.kind.id] }

func (t *table) resourceVersion(key string) (string, bool) {
	obj, ok := t.contents().objects.Get([]byte(key))
	if !ok {
		return "", false
	}
	return obj.GetResourceVersion(), true
}

// topics lists everything a reader of obj may have asked for to find it.
func (t *table) topics(obj metav1.Object, add func(Topic)) {
	add(Topic{t.kind.id, idxKey, keyOf(obj)})
	add(Topic{t.kind.id, idxNamespace, obj.GetNamespace()})
	add(Topic{t.kind.id, idxAll, ""})
	for position, ix := range t.kind.indexes {
		for _, key := range ix.keys(obj) {
			add(Topic{t.kind.id, idxSecondary + position, key})
		}
	}
}
