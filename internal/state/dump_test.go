package state

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A dump has the objects as they are held, without what is secret.
func TestDump(t *testing.T) {
	s, err := New(Config{Cluster: LocalCluster, Kinds: LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	names := Derive(s, "names", Services, func(source, _ *corev1.Service) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	})
	Put(s, Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", ResourceVersion: "7"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}})
	Put(s, Secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "east", Annotations: map[string]string{"last-applied": "hidden"}},
		Data:       map[string][]byte{"kubeconfig": []byte("hidden")},
	})

	tables, revision := s.Tables()
	if revision != s.Snapshot().Revision() {
		t.Errorf("revision %d", revision)
	}
	held := map[string]Table{}
	for _, table := range tables {
		held[table.Name] = table
	}
	for _, want := range []Table{{"service", "services", 1}, {"secret", "secrets", 1}, {"pod", "pods", 0}, {names.Name, "", 1}} {
		if got := held[want.Name]; got != want {
			t.Errorf("table %+v, want %+v", got, want)
		}
	}

	rows, _, err := s.Rows("service")
	if err != nil || len(rows) != 1 || rows[0].Key != "ns/web" || rows[0].Version != "7" || !bytes.Contains(rows[0].Object, []byte("10.0.0.1")) {
		t.Errorf("services: %s, %v", rows, err)
	}
	rows, _, err = s.Rows("secret")
	if err != nil || len(rows) != 1 || bytes.Contains(rows[0].Object, []byte("hidden")) || bytes.Contains(rows[0].Object, []byte("aGlkZGVu")) {
		t.Errorf("secrets: %s, %v", rows, err)
	}
	if kept, _ := Get(s.Snapshot().Reader(), Secrets, "linkerd", "east"); string(kept.Data["kubeconfig"]) != "hidden" {
		t.Error("the object itself is masked")
	}
	if rows, _, err = s.Rows(names.Name); err != nil || len(rows) != 1 || rows[0].Object != nil {
		t.Errorf("derived: %s, %v", rows, err)
	}
	if _, _, err = s.Rows("nothing"); err == nil {
		t.Error("there is a table of any name")
	}
}
