package state

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// derived is a table that follows a source table.
type derived struct {
	source *KindInfo
	table  *table
	// form makes a row of its source and of the row before; nil is none.
	form func(source, previous metav1.Object) (metav1.Object, []problems.Problem)
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
// name of their source, and are not changed after. A form that panics keeps the
// last version of that object.
//
// The kind is valid for s only, and reads as empty if s does not hold source.
// Call Derive before s runs and before it is read.
func Derive[T, D Object](s *State, name string, source *Kind[T], form func(source T, previous D) D, indexes ...Index[D]) *Kind[D] {
	return DeriveJudging(s, name, source, func(source T, previous D) (D, []problems.Problem) {
		return form(source, previous), nil
	}, indexes...)
}

// DeriveJudging is Derive for a form that also finds out what is wrong with
// the source: everything that is, each time. A problem that names no object is
// about the source. They are in the State's table of problems as long as this
// version is there, under the kind's name.
func DeriveJudging[T, D Object](s *State, name string, source *Kind[T], form func(source T, previous D) (D, []problems.Problem), indexes ...Index[D]) *Kind[D] {
	kind := &Kind[D]{KindInfo{Name: name, GVR: source.GVR, GVK: source.GVK, indexes: untyped(indexes)}}
	s.derive(&kind.KindInfo, &source.KindInfo, func(obj, previous metav1.Object) (metav1.Object, []problems.Problem) {
		// An assertion that fails leaves zero: there was none.
		before, _ := previous.(D)
		var none D
		result, found := form(obj.(T), before)
		if result != none {
			return result, found
		}
		return nil, found
	})
	return kind
}

func (s *State) derive(kind, source *KindInfo, form func(source, previous metav1.Object) (metav1.Object, []problems.Problem)) {
	kind.id = len(s.tables)
	s.tables = append(s.tables, nil)
	s.store.grow(1)
	from := s.tables[source.id]
	if from == nil {
		return
	}
	added := newTable(s.store, kind, s.desk(kind.Name))
	s.tables[kind.id] = added
	d := &derived{source: source, table: added, form: form}
	from.derived = append(from.derived, d)

	s.store.update(func(txn *transaction) {
		for _, obj := range from.contents().objects.All {
			d.follow(txn, keyOf(obj), obj)
		}
	}).log()
}

// follow brings the row at key up to date with its source; a nil source
// deletes it.
func (d *derived) follow(txn *transaction, key string, source metav1.Object) {
	old := txn.get(d.table.kind.id, key)
	var row metav1.Object
	var values [][]string
	var found []problems.Problem
	if source != nil {
		fault := problems.Catch(func() {
			if row, found = d.form(source, old); row != nil && row != old {
				values = d.table.kind.indexValues(row)
			}
		})
		if fault != nil {
			row, values = nil, nil
			if old != nil && old.GetUID() == source.GetUID() {
				row = old
			}
			found = []problems.Problem{faulty(fault, row != nil)}
		}
	}
	txn.hear(d.table.problems.say(d.source, key, found...))
	if row != old {
		d.table.set(txn, key, old, row, values)
	}
}
