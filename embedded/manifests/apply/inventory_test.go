package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestInventory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	inv, replaced, err := LoadInventory(dir, true, "c1")
	must(t, err)
	if replaced {
		t.Error("replaced")
	}
	r := plan.Record{Key: source.Key{Group: "g", Kind: "K", Namespace: "ns", Name: "n"}, Version: "v1", File: "/a", Hash: "h", Fields: "f", HasStatus: true}
	inv.Put(r)
	inv.Put(plan.Record{Key: source.Key{Kind: "L", Name: "n"}})
	inv.Drop(source.Key{Kind: "L", Name: "n"})
	must(t, inv.Save())
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	again, _, err := LoadInventory(dir, true, "c1")
	must(t, err)
	if diff := cmp.Diff(map[source.Key]plan.Record{r.Key: r}, again.Records); diff != "" {
		t.Error(diff)
	}
	if other, replaced, err := LoadInventory(dir, true, "c2"); err != nil || !replaced || len(other.Records) > 0 {
		t.Errorf("another cluster: %v %v %v", other, replaced, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "inventory.json"), []byte(`{"format": 9}`), 0o600))
	if _, _, err := LoadInventory(dir, true, "c1"); err == nil || !strings.Contains(err.Error(), "has format 9, this program knows 1") {
		t.Errorf("error is %v", err)
	}
}
