package state

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is what a table can hold: a pointer to a Kubernetes object.
// Objects in tables are shared by all readers and never changed.
type Object interface {
	metav1.Object
	comparable
}

// kubernetesObject is an object that can be fetched.
type kubernetesObject interface {
	metav1.Object
	runtime.Object
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

// KindInfo describes a kind without its Go type.
type KindInfo struct {
	// Name is unique among kinds and fit for metric names ("externalworkload").
	Name string
	GVR  schema.GroupVersionResource
	GVK  schema.GroupVersionKind

	id      int
	form    form
	indexes []secondaryIndex
	// trim takes away what nobody reads; nil keeps everything.
	trim func(metav1.Object) metav1.Object
	// empty is nil for derived kinds, which are not fetched.
	empty func() kubernetesObject
}

func (k *KindInfo) String() string { return k.Name }

func (k *KindInfo) info() *KindInfo { return k }

// Kind describes one table: what it holds, how it is fetched, how it is indexed.
// Kinds are constants; the tables themselves belong to a State.
//
// The type parameter is for those who read and write: tables hold objects of
// any type, as code for a table of each type would make a program larger.
type Kind[T Object] struct {
	KindInfo
}

// Index is a named, non-unique secondary index over a kind.
type Index[T Object] struct {
	secondaryIndex
}

type secondaryIndex struct {
	name string
	keys func(metav1.Object) []string
	// pos is the index's number within its kind: see the idx constants.
	pos int
}

// NewIndex returns an index over a kind. Position is its place among the
// kind's indexes, from 0.
func NewIndex[T Object](position int, name string, keys func(T) []string) Index[T] {
	return Index[T]{secondaryIndex{name: name, keys: func(obj metav1.Object) []string { return keys(obj.(T)) }, pos: idxSecondary + position}}
}

// untyped panics if an index is not at the position that it was made for: it
// would be read in the place of another.
func untyped[T Object](indexes []Index[T]) []secondaryIndex {
	var list []secondaryIndex
	for i, ix := range indexes {
		if ix.pos != idxSecondary+i {
			panic(fmt.Sprintf("index %q is number %d of its kind, and was made to be number %d", ix.name, i, ix.pos-idxSecondary))
		}
		list = append(list, ix.secondaryIndex)
	}
	return list
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

// splitKey is the reverse of objectKey.
func splitKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

func keyOf(obj metav1.Object) string { return objectKey(obj.GetNamespace(), obj.GetName()) }
