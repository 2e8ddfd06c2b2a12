package state

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb/part"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// store has what all tables hold, one version after the other.
//
//  1. What a table holds is in persistent radix trees, one by key and one for each index.
//  2. A version is a list of these by the number of the table. A transaction writes copies of the trees that it
//     changes, which share what did not change, and makes them the next version at once.
//  3. Whoever has loaded a version can read it as long as they like, without a lock.
type store struct {
	// writing is held by the transaction that is under way.
	writing sync.Mutex
	// committed is told of each version and of what led to it, in order.
	committed func(*version, []Change)
	version   atomic.Pointer[version]
}

// version is what all tables hold after a transaction. Immutable.
type version struct {
	// revision counts the transactions that changed something.
	revision uint64
	// tables are by number; nil is one that there is not.
	tables []*contents
}

// contents are what a table holds, nil for one that there is not. Immutable.
type contents struct {
	// objects are by key.
	objects part.Tree[metav1.Object]
	// indexes have an object under each of its values in the index, see indexKey.
	indexes []part.Tree[metav1.Object]
}

// indexKey is where an index has the object at key for a value. With an empty
// key it is what all objects of that value begin with.
func indexKey(value, key string) []byte {
	bytes := make([]byte, 0, len(value)+1+len(key))
	bytes = append(bytes, value...)
	bytes = append(bytes, 0)
	return append(bytes, key...)
}

// newStore returns a store without any table. What follows must not be called while it is in use.
func newStore(numbers int, committed func(*version, []Change)) *store {
	s := &store{committed: committed}
	s.version.Store(&version{})
	s.grow(numbers)
	return s
}

// grow makes place for more tables.
func (s *store) grow(numbers int) {
	present := s.load()
	s.version.Store(&version{present.revision, append(slices.Clone(present.tables), make([]*contents, numbers)...)})
}

// addTable makes an empty table for a kind.
func (s *store) addTable(kind *KindInfo) {
	// Nobody waits for a part of a tree to change.
	table := &contents{objects: part.New[metav1.Object](part.RootOnlyWatch)}
	for range kind.indexes {
		table.indexes = append(table.indexes, part.New[metav1.Object](part.RootOnlyWatch))
	}
	s.load().tables[kind.id] = table
}

// load returns the present version. It is not to be changed.
func (s *store) load() *version { return s.version.Load() }

// update runs a transaction, and returns what came of it.
func (s *store) update(write func(*transaction)) outcome {
	s.writing.Lock()
	defer s.writing.Unlock()
	present := s.load()
	t := &transaction{base: present.tables, revision: present.revision + 1, changed: map[int]*changing{}}
	write(t)
	if len(t.changed) > 0 {
		next := &version{t.revision, slices.Clone(t.base)}
		for id, table := range t.changed {
			next.tables[id] = table.commit()
		}
		s.version.Store(next)
		s.committed(next, t.changes)
	}
	return t.outcome
}

// transaction is the next version while it is made.
type transaction struct {
	base []*contents
	// revision is that of the next version.
	revision uint64
	changed  map[int]*changing
	outcome
}

// outcome is what comes of a transaction: what changed, and what was found
// wrong on the way, which is logged when the transaction is over.
type outcome struct {
	changes []Change
	news    []*problems.News
}

// log writes what was found. The lock of the store is free by now, so that a
// terminal that stands still holds up no writer.
func (o outcome) log() {
	for _, news := range o.news {
		news.Log()
	}
}

func (o *outcome) hear(news *problems.News) {
	if news != nil {
		o.news = append(o.news, news)
	}
}

// changing is a table that a transaction changes.
type changing struct {
	objects *part.Txn[metav1.Object]
	indexes []*part.Txn[metav1.Object]
}

// get returns the object of a table as the transaction has left it; nil is none.
func (t *transaction) get(id int, key string) metav1.Object {
	var object metav1.Object
	if table := t.changed[id]; table != nil {
		object, _ = table.objects.Get([]byte(key))
	} else {
		object, _ = t.base[id].objects.Get([]byte(key))
	}
	return object
}

// set puts object in the place of old, at its key and in the table's indexes,
// where its values are those given; nil is none.
func (t *transaction) set(kind *KindInfo, key string, old, object metav1.Object, values [][]string) {
	table := t.changed[kind.id]
	if table == nil {
		table = t.base[kind.id].change()
		t.changed[kind.id] = table
	}
	if object == nil {
		table.objects.Delete([]byte(key))
	} else {
		table.objects.Insert([]byte(key), object)
	}
	for i, index := range kind.indexes {
		if old != nil {
			for _, value := range index.keys(old) {
				table.indexes[i].Delete(indexKey(value, key))
			}
		}
		if object != nil {
			for _, value := range values[i] {
				table.indexes[i].Insert(indexKey(value, key), object)
			}
		}
	}
}

// indexValues are an object's values in each index of its kind.
func (k *KindInfo) indexValues(object metav1.Object) [][]string {
	if len(k.indexes) == 0 {
		return nil
	}
	values := make([][]string, len(k.indexes))
	for i, index := range k.indexes {
		values[i] = index.keys(object)
	}
	return values
}

func (c *contents) change() *changing {
	table := &changing{objects: c.objects.Txn()}
	for i := range c.indexes {
		table.indexes = append(table.indexes, c.indexes[i].Txn())
	}
	return table
}

func (c *changing) commit() *contents {
	table := &contents{objects: c.objects.CommitAndNotify()}
	for _, index := range c.indexes {
		table.indexes = append(table.indexes, index.CommitAndNotify())
	}
	return table
}
