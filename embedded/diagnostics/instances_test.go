package diagnostics

import (
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// Of an instance that has just begun little is known.
func TestWriteInstances(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var out strings.Builder
	if err := WriteInstances(&out, []*datadir.RunInfo{
		{PID: 7, DataDir: "/d/one", Dirs: []string{"a", "b"}, Started: now.Add(-90 * time.Second), Ready: true},
		{PID: 8, DataDir: "/d/two"},
	}, now); err != nil {
		t.Fatal(err)
	}
	want := "PID   READY   AGE     MANIFESTS   DATA DIR\n7     yes     1m30s   a b         /d/one\n8     no      -       -           /d/two\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}
