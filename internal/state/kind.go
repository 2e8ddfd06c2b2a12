package state

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// Object is what a table can hold: a pointer to a Kubernetes object.
// Objects in tables are shared by all readers and never changed.
type Object interface {
	metav1.Object
	comparable
}

// form says how a kind's objects are fetched from the API server.
type form int

const (
	// full objects, decoded by client-go's typed codec (protobuf on the wire).
	full form = iota
	// metadataOnly fetches PartialObjectMetadata.
	metadataOnly
	// custom resources are fetched as unstructured and decoded one by one, so
	// that one object that does not decode harms no other.
	custom
)

// KindInfo is the part of a kind that does not depend on its Go type.
type KindInfo struct {
	// Name is unique among kinds and fit for metric names ("externalworkload").
	Name string
	GVR  schema.GroupVersionResource
	GVK  schema.GroupVersionKind

	id   int
	form form
}

func (k *KindInfo) String() string { return k.Name }

// Kind describes one table: what it holds, how it is fetched, how it is indexed.
// Kinds are constants; the tables themselves belong to a State.
type Kind[T Object] struct {
	KindInfo
	indexes []Index[T]
	trim    func(T) T
	newT    func() T
}

// Index is a named, non-unique secondary index over a kind.
type Index[T Object] struct {
	name string
	// pos is the index's number within its kind: see the idx constants.
	pos  int
	keys func(T) []string
}

// Positions of the indexes that every kind has; secondary ones follow.
const (
	idxKey = iota
	idxNamespace
	idxAll
	idxSecondary
)

// objectKey is the primary key: "namespace/name", or "/name" for cluster-wide kinds.
func objectKey(namespace, name string) string { return namespace + "/" + name }

// anyKind is a Kind without its type parameter.
type anyKind interface {
	info() *KindInfo
	newTable(db *statedb.DB) (anyTable, error)
	emptyObject() runtime.Object
}

// anyTable is a table without its type parameter.
type anyTable interface {
	// put stores obj (nil deletes key) in a transaction of its own and
	// returns what changed.
	put(db *statedb.DB, key string, obj any) []Change
	// replace makes the table hold exactly objs, keeping those in keep.
	replace(db *statedb.DB, objs map[string]any, keep map[string]bool) []Change
	len(txn statedb.ReadTxn) int
	resourceVersion(txn statedb.ReadTxn, key string) (string, bool)
	topics(obj any, add func(Topic))
}

type table[T Object] struct {
	kind      *Kind[T]
	rw        statedb.RWTable[T]
	primary   statedb.Index[T, string]
	namespace statedb.Index[T, string]
	secondary []statedb.Index[T, string]
	// derived tables are written in the same transactions.
	derived []derived[T]
}

func (k *Kind[T]) info() *KindInfo { return &k.KindInfo }

func (k *Kind[T]) emptyObject() runtime.Object {
	obj, ok := any(k.newT()).(runtime.Object)
	if !ok {
		panic(fmt.Sprintf("kind %s: %T is no runtime.Object", k.Name, k.newT()))
	}
	return obj
}

func (k *Kind[T]) newTable(db *statedb.DB) (anyTable, error) {
	t := &table[T]{
		kind: k,
		primary: statedb.Index[T, string]{
			Name: "key",
			FromObject: func(obj T) index.KeySet {
				return index.NewKeySet(index.String(objectKey(obj.GetNamespace(), obj.GetName())))
			},
			FromKey:    index.String,
			FromString: index.FromString,
			Unique:     true,
		},
		namespace: statedb.Index[T, string]{
			Name: "namespace",
			FromObject: func(obj T) index.KeySet {
				return index.NewKeySet(index.String(obj.GetNamespace()))
			},
			FromKey:    index.String,
			FromString: index.FromString,
		},
	}
	indexers := []statedb.Indexer[T]{t.namespace}
	for _, ix := range k.indexes {
		secondary := statedb.Index[T, string]{
			Name:       ix.name,
			FromObject: func(obj T) index.KeySet { return index.StringSlice(ix.keys(obj)) },
			FromKey:    index.String,
			FromString: index.FromString,
		}
		t.secondary = append(t.secondary, secondary)
		indexers = append(indexers, secondary)
	}
	rw, err := statedb.NewTableAny(db, k.Name, func() []string { return nil }, func(T) []string { return nil }, t.primary, indexers...)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", k.Name, err)
	}
	t.rw = rw
	return t, nil
}

// writeTxn opens a transaction on the table and those derived from it.
func (t *table[T]) writeTxn(db *statedb.DB) statedb.WriteTxn {
	tables := []statedb.TableMeta{t.rw}
	for _, d := range t.derived {
		tables = append(tables, d.meta())
	}
	return db.WriteTxn(tables...)
}

func (t *table[T]) put(db *statedb.DB, key string, obj any) []Change {
	txn := t.writeTxn(db)
	defer txn.Abort()
	changes := t.write(nil, txn, key, obj)
	if len(changes) > 0 {
		txn.Commit()
	}
	return changes
}

// write stores obj (nil deletes key) and appends what changed, here and in derived tables, to changes.
func (t *table[T]) write(changes []Change, txn statedb.WriteTxn, key string, obj any) []Change {
	old, _, had := t.rw.Get(txn, t.primary.Query(key))
	change := Change{table: t, Kind: &t.kind.KindInfo, Key: key}
	if had {
		change.Old = old
	}
	var typed T
	if obj == nil {
		if !had {
			return changes
		}
		if _, _, err := t.rw.Delete(txn, old); err != nil {
			panic(fmt.Sprintf("delete %s %s: %v", t.kind.Name, key, err))
		}
	} else {
		typed = t.kind.trim(obj.(T))
		if had && old.GetResourceVersion() != "" && old.GetResourceVersion() == typed.GetResourceVersion() && old.GetUID() == typed.GetUID() {
			return changes
		}
		change.New = typed
		if _, _, err := t.rw.Insert(txn, typed); err != nil {
			panic(fmt.Sprintf("insert %s %s: %v", t.kind.Name, key, err))
		}
	}
	changes = append(changes, change)
	for _, d := range t.derived {
		if change, changed := d.follow(txn, key, typed); changed {
			changes = append(changes, change)
		}
	}
	return changes
}

func (t *table[T]) replace(db *statedb.DB, objs map[string]any, keep map[string]bool) []Change {
	txn := t.writeTxn(db)
	defer txn.Abort()
	var changes []Change
	var gone []string
	for old := range t.rw.All(txn) {
		key := objectKey(old.GetNamespace(), old.GetName())
		if _, ok := objs[key]; !ok && !keep[key] {
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

func (t *table[T]) len(txn statedb.ReadTxn) int { return t.rw.NumObjects(txn) }

func (t *table[T]) resourceVersion(txn statedb.ReadTxn, key string) (string, bool) {
	obj, _, ok := t.rw.Get(txn, t.primary.Query(key))
	if !ok {
		return "", false
	}
	return obj.GetResourceVersion(), true
}

// topics lists everything a reader of obj may have asked for to find it.
func (t *table[T]) topics(obj any, add func(Topic)) {
	typed := obj.(T)
	add(Topic{t.kind.id, idxKey, objectKey(typed.GetNamespace(), typed.GetName())})
	add(Topic{t.kind.id, idxNamespace, typed.GetNamespace()})
	add(Topic{t.kind.id, idxAll, ""})
	for _, ix := range t.kind.indexes {
		for _, key := range ix.keys(typed) {
			add(Topic{t.kind.id, ix.pos, key})
		}
	}
}
