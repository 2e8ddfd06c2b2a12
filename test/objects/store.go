package objects

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Store gives objects what an API server does, and puts them into a State. Safe
// for concurrent use.
type Store struct {
	// Born are creation times by the names of objects, which stores may share.
	Born map[string]metav1.Time

	t       testing.TB
	state   *state.State
	mu      sync.Mutex
	version int
	// versions has the newest resourceVersion of each object; those in given are
	// used instead of new ones.
	versions, given map[string]string
}

// NewStore returns a store over a State.
func NewStore(t testing.TB, st *state.State) *Store {
	return &Store{Born: map[string]metav1.Time{}, versions: map[string]string{}, t: t, state: st}
}

// Like gives objects the creation times that they have in another store, and
// the versions that they had there last.
func (s *Store) Like(other *Store) { s.Born, s.given = other.Born, other.versions }

// Wrong are the problems of objects that are known at present and have all of
// the parts. The State has a table of problems.
func (s *Store) Wrong(parts ...string) []string {
	var lines []string
	for _, p := range s.state.Problems().List() {
		line := p.String()
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Put stores the object of a document.
func (s *Store) Put(doc string) {
	s.t.Helper()
	name := Name(s.t, doc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := Put(s.state, name, doc, func(obj metav1.Object) { s.complete(name, obj) }); err != nil {
		s.t.Fatalf("%v in:\n%s", err, doc)
	}
}

// complete sets what an API server does. The lock is held.
func (s *Store) complete(name string, obj metav1.Object) {
	s.version++
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		s.Born[name] = created
	} else if _, ok := s.Born[name]; !ok {
		s.Born[name] = metav1.Unix(int64(s.version), 0)
	}
	born := s.Born[name]
	obj.SetCreationTimestamp(born)
	obj.SetUID(types.UID(fmt.Sprint(born.Unix())))
	s.versions[name] = fmt.Sprint(s.version)
	if version, ok := s.given[name]; ok {
		s.versions[name] = version
	}
	obj.SetResourceVersion(s.versions[name])
	if service, ok := obj.(*corev1.Service); ok && service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
}

// Remove forgets the objects of that names, see Name.
func (s *Store) Remove(names ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.Born, name)
		if err := Remove(s.state, name); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Draw stores an object of that name in one of its variants, or removes it. Held
// are the objects that there are, by their names.
func (s *Store) Draw(t *rapid.T, name string, variants []string, held map[string]string) {
	if i := rapid.IntRange(-1, len(variants)-1).Draw(t, "variant"); i >= 0 {
		held[name] = variants[i]
		s.Put(variants[i])
	} else if _, ok := held[name]; ok {
		delete(held, name)
		s.Remove(name)
	}
}

// Documents are those of streams of YAML that are not empty.
func Documents(streams ...string) []string {
	var docs []string
	for _, text := range streams {
		for _, doc := range strings.Split(text, "\n---\n") {
			if strings.TrimSpace(doc) != "" {
				docs = append(docs, doc)
			}
		}
	}
	return docs
}
