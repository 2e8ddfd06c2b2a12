package state

import (
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// table holds the objects of one kind.
type table struct {
	kind      *KindInfo
	rw        statedb.RWTable[metav1.Object]
	primary   statedb.Index[metav1.Object, string]
	namespace statedb.Index[metav1.Object, string]
	secondary []statedb.Index[metav1.Object, string]
	// derived tables are written in the same transactions.
	derived []*derived
}

func newTable(db *statedb.DB, kind *KindInfo) (*table, error) {
	t := &table{
		kind: kind,
		primary: statedb.Index[metav1.Object, string]{
			Name:       "key",
			FromObject: func(obj metav1.Object) index.KeySet { return index.NewKeySet(index.String(keyOf(obj))) },
			FromKey:    index.String,
			FromString: index.FromString,
			Unique:     true,
		},
		namespace: statedb.Index[metav1.Object, string]{
			Name:       "namespace",
			FromObject: func(obj metav1.Object) index.KeySet { return index.NewKeySet(index.String(obj.GetNamespace())) },
			FromKey:    index.String,
			FromString: index.FromString,
		},
	}
	indexers := []statedb.Indexer[metav1.Object]{t.namespace}
	for _, ix := range kind.indexes {
		secondary := statedb.Index[metav1.Object, string]{
			Name:       ix.name,
			FromObject: func(obj metav1.Object) index.KeySet { return index.StringSlice(ix.keys(obj)) },
			FromKey:    index.String,
			FromString: index.FromString,
		}
		t.secondary = append(t.secondary, secondary)
		indexers = append(indexers, secondary)
	}
	rw, err := statedb.NewTableAny(db, kind.Name, func() []string { return nil }, func(metav1.Object) []string { return nil }, t.primary, indexers...)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", kind.Name, err)
	}
	t.rw = rw
	return t, nil
}

// writeTxn opens a transaction on the table and those derived from it.
func (t *table) writeTxn(db *statedb.DB) statedb.WriteTxn {
	tables := []statedb.TableMeta{t.rw}
	for _, d := range t.derived {
		tables = append(tables, d.table.rw)
	}
	return db.WriteTxn(tables...)
}

// put stores obj (nil deletes key) in a transaction of its own and returns
// what changed.
func (t *table) put(db *statedb.DB, key string, obj metav1.Object) []Change {
	txn := t.writeTxn(db)
	defer txn.Abort()
	changes := t.write(nil, txn, key, obj)
	if len(changes) > 0 {
		txn.Commit()
	}
	return changes
}

// write stores obj (nil deletes key) and appends what changed, here and in derived tables, to changes.
func (t *table) write(changes []Change, txn statedb.WriteTxn, key string, obj metav1.Object) []Change {
	old, _, had := t.rw.Get(txn, t.primary.Query(key))
	if obj == nil && !had {
		return changes
	}
	if obj != nil && t.kind.trim != nil {
		obj = t.kind.trim(obj)
	}
	if obj != nil && had && old.GetResourceVersion() != "" && old.GetResourceVersion() == obj.GetResourceVersion() && old.GetUID() == obj.GetUID() {
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
func (t *table) set(txn statedb.WriteTxn, key string, old, obj metav1.Object) Change {
	change := Change{table: t, Kind: t.kind, Key: key}
	if old != nil {
		change.Old = old
	}
	var err error
	if obj == nil {
		_, _, err = t.rw.Delete(txn, old)
	} else {
		change.New = obj
		_, _, err = t.rw.Insert(txn, obj)
	}
	if err != nil {
		// Only a transaction that does not hold the table makes it fail.
		panic(fmt.Sprintf("write %s %s: %v", t.kind.Name, key, err))
	}
	return change
}

// replace makes the table hold exactly objs, and what it held of the objects in
// keep. One of the same name with another UID is another object.
func (t *table) replace(db *statedb.DB, objs map[string]metav1.Object, keep map[string]types.UID) []Change {
	txn := t.writeTxn(db)
	defer txn.Abort()
	var changes []Change
	var gone []string
	for old := range t.rw.All(txn) {
		key := keyOf(old)
		if _, ok := objs[key]; ok {
			continue
		}
		if uid, ok := keep[key]; !ok || uid != old.GetUID() {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		changes = t.write(changes, txn, key, nil)
	}
	for key, obj := range objs {
		changes = t.write(changes, txn, key, obj)
	}
	txn.Commit()
	return changes
}

func (t *table) len(txn statedb.ReadTxn) int { return t.rw.NumObjects(txn) }

func (t *table) resourceVersion(txn statedb.ReadTxn, key string) (string, bool) {
	obj, _, ok := t.rw.Get(txn, t.primary.Query(key))
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
