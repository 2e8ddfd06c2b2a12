package state

import (
	"fmt"

	"github.com/cilium/statedb"
)

// derived is a table that follows a source table, without its own type parameter.
type derived[T Object] interface {
	meta() statedb.TableMeta
	// follow brings the row at key up to date with its source; a zero source deletes it.
	follow(txn statedb.WriteTxn, key string, source T) (Change, bool)
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
func Derive[T, D Object](s *State, name string, source *Kind[T], form func(source T, previous D) D, indexes ...Index[D]) (*Kind[D], error) {
	kind := &Kind[D]{
		KindInfo: KindInfo{Name: name, GVR: source.GVR, GVK: source.GVK, id: len(s.tables)},
		indexes:  indexes,
		trim:     func(obj D) D { return obj },
	}
	s.tables = append(s.tables, nil)
	if s.tables[source.id] == nil {
		return kind, nil
	}
	from := s.tables[source.id].(*table[T])
	added, err := kind.newTable(s.db)
	if err != nil {
		return nil, err
	}
	s.tables[kind.id] = added
	d := &derivedTable[T, D]{table: added.(*table[D]), form: form}
	from.derived = append(from.derived, d)

	txn := s.db.WriteTxn(from.rw, d.meta())
	defer txn.Abort()
	for obj := range from.rw.All(txn) {
		d.follow(txn, objectKey(obj.GetNamespace(), obj.GetName()), obj)
	}
	txn.Commit()
	return kind, nil
}

// NewIndex returns an index for a derived kind. Position is its place among
// the indexes given to Derive, from 0.
func NewIndex[T Object](position int, name string, keys func(T) []string) Index[T] {
	return Index[T]{name: name, pos: idxSecondary + position, keys: keys}
}

type derivedTable[T, D Object] struct {
	*table[D]
	form func(T, D) D
}

func (d *derivedTable[T, D]) meta() statedb.TableMeta { return d.rw }

func (d *derivedTable[T, D]) follow(txn statedb.WriteTxn, key string, source T) (Change, bool) {
	var none D
	var gone T
	old, _, had := d.rw.Get(txn, d.primary.Query(key))
	result := none
	if source != gone {
		result = d.form(source, old)
	}
	if result == old {
		return Change{}, false
	}
	change := Change{table: d.table, Kind: &d.kind.KindInfo, Key: key}
	if had {
		change.Old = old
	}
	var err error
	if result == none {
		_, _, err = d.rw.Delete(txn, old)
	} else {
		change.New = result
		_, _, err = d.rw.Insert(txn, result)
	}
	if err != nil {
		panic(fmt.Sprintf("derive %s %s: %v", d.kind.Name, key, err))
	}
	return change, true
}
