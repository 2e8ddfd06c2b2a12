package state

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// derived is a table that follows a source table.
type derived struct {
	table *table
	// form makes a row of its source and of the row before; nil is none.
	form func(source, previous metav1.Object) metav1.Object
}

// Derive adds a kind to s whose objects are made from those of source, one
// from each: what a part makes of an object is computed once per version of
// it, and not by everyone who reads it.
//
// form gets the present version of the source, and what it returned for the
// version before, zero at first. Its result is stored in the transaction that
// stores the source; zero means that there is no such object. Returning
// previous means that nothing changed, and nobody is told: that is how a part
// ignores changes it does not care for, and keeps the last version it can use
// when the present one is of no use to it. Results have the namespace and the
// name of their source, and are not changed after.
//
// The kind is valid for s only, and reads as empty if s does not hold source.
// Call Derive before s runs and before it is read.
func Derive[T, D Object](s *State, name string, source *Kind[T], form func(source T, previous D) D, indexes ...Index[D]) *Kind[D] {
	kind := &Kind[D]{KindInfo{Name: name, GVR: source.GVR, GVK: source.GVK, indexes: untyped(indexes)}}
	s.derive(&kind.KindInfo, &source.KindInfo, func(obj, previous metav1.Object) metav1.Object {
		// An assertion that fails leaves zero: there was none.
		before, _ := previous.(D)
		var none D
		if result := form(obj.(T), before); result != none {
			return result
		}
		return nil
	})
	return kind
}

func (s *State) derive(kind, source *KindInfo, form func(source, previous metav1.Object) metav1.Object) {
	kind.id = len(s.tables)
	s.tables = append(s.tables, nil)
	s.store.grow(1)
	from := s.tables[source.id]
	if from == nil {
		return
	}
	added := newTable(s.store, kind)
	s.tables[kind.id] = added
	d := &derived{table: added, form: form}
	from.derived = append(from.derived, d)

	s.store.update(func(txn *transaction) []Change {
		for _, obj := range from.contents().objects.All {
			d.follow(txn, keyOf(obj), obj)
		}
		return nil
	})
}

// follow brings the row at key up to date with its source; a nil source
// deletes it.
func (d *derived) follow(txn *transaction, key string, source metav1.Object) (Change, bool) {
	old := txn.get(d.table.kind.id, key)
	var result metav1.Object
	if source != nil {
		result = d.form(source, old)
	}
	if result == old {
		return Change{}, false
	}
	return d.table.set(txn, key, old, result), true
}
