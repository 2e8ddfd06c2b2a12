package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
)

func TestSplitName(t *testing.T) {
	for in, good := range map[string]bool{"ns/pod": true, "pod": false, "/pod": false, "ns/": false, "ns/a/b": false, "": false} {
		_, _, err := splitName(in)
		if (err == nil) != good {
			t.Errorf("%q: %v", in, err)
		}
		var exit *exitError
		if err != nil && (!errors.As(err, &exit) || exit.code != exitUsage) {
			t.Errorf("%q: %v is no usage error", in, err)
		}
	}
}

func TestWriteCertificates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	root := identitytest.NewCA(t, "root", now.Add(100*24*time.Hour+time.Hour), nil)
	issuer := identitytest.NewCA(t, "issuer", now.Add(-time.Hour), root)
	var out bytes.Buffer
	if err := writeCertificates(&out, now, root.PEM(), issuer.PEM()); err != nil {
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

func TestDialAddress(t *testing.T) {
	info := &datadir.RunInfo{DataDir: "/d", Addresses: map[string]string{"destination": "127.0.0.1:8086", "policy": "0.0.0.0:8090", "identity": "10.1.2.3:8080"}}
	for listener, want := range map[string]string{
		"destination": "127.0.0.1:8086", "policy": "10.244.0.3:8090", "identity": "10.1.2.3:8080", "shim-inbound": "",
	} {
		got, err := dialAddress(info, listener, "10.244.0.3")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", listener, got, err, want)
		}
	}
}
