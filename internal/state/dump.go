package state

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Table describes what is held of a kind, for people.
type Table struct {
	Name string `json:"name"`
	// Resource is as kubectl has it ("servers.policy.linkerd.io"); "" for a
	// derived table, which is made from others.
	Resource string `json:"resource,omitempty"`
	Objects  int    `json:"objects"`
}

// Row is an object of a table. Values of Secrets are not in it.
type Row struct {
	// Key is "namespace/name", or the name.
	Key     string `json:"key"`
	Version string `json:"resourceVersion"`
	// Object is as it is held: without what nobody reads. Absent in derived
	// tables, whose objects are of the program's own types.
	Object json.RawMessage `json:"object,omitempty"`
}

// Tables describes all tables of the newest snapshot, and says which revision that is.
func (s *State) Tables() (tables []Table, revision uint64) {
	now := s.store.load()
	for _, t := range s.tables {
		if t == nil {
			continue
		}
		described := Table{Name: t.kind.Name, Objects: now.tables[t.kind.id].objects.Len()}
		if !t.isDerived() {
			described.Resource = t.kind.GVR.GroupResource().String()
		}
		tables = append(tables, described)
	}
	return tables, now.revision
}

// Rows returns what a table holds, by key. The error says that there is no such table.
func (s *State) Rows(name string) (rows []Row, revision uint64, err error) {
	now := s.store.load()
	for _, t := range s.tables {
		if t == nil || t.kind.Name != name {
			continue
		}
		for key, object := range now.tables[t.kind.id].objects.All {
			row := Row{Key: string(key), Version: object.GetResourceVersion()}
			if !t.isDerived() {
				if row.Object, err = json.Marshal(masked(object)); err != nil {
					return nil, 0, fmt.Errorf("%s %s: %w", name, key, err)
				}
			}
			rows = append(rows, row)
		}
		return rows, now.revision, nil
	}
	return nil, 0, fmt.Errorf("there is no table %q", name)
}

// isDerived reports that the table is made from another one.
func (t *table) isDerived() bool { return t.kind.empty == nil }

// masked is object without what is secret in it: the values of a Secret, and all its annotations, as kubectl
// keeps values there, too.
func masked(object metav1.Object) metav1.Object {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return object
	}
	shown := secret.DeepCopy()
	for name, value := range shown.Data {
		shown.Data[name] = fmt.Appendf(nil, "masked, %d bytes", len(value))
	}
	for name := range shown.StringData {
		shown.StringData[name] = "masked"
	}
	for name := range shown.Annotations {
		shown.Annotations[name] = "masked"
	}
	return shown
}
