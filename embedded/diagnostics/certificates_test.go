package diagnostics

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
)

func TestWriteCertificates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	root := identitytest.NewCA(t, "root", now.Add(100*24*time.Hour+time.Hour), nil)
	issuer := identitytest.NewCA(t, "issuer", now.Add(-time.Hour), root)
	var out bytes.Buffer
	if err := WriteCertificates(&out, now, root.PEM(), issuer.PEM()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"ROLE SUBJECT ALGORITHM NOT AFTER DAYS LEFT",
		"anchor CN=root ECDSA 2026-06-09T13:00:00Z 100",
		"issuer CN=issuer ECDSA 2026-03-01T11:00:00Z -1",
	}
	if len(lines) != len(want) {
		t.Fatalf("printed %q", lines)
	}
	for i := range want {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want[i] {
			t.Errorf("line %d is %q, want %q", i, got, want[i])
		}
	}
}
