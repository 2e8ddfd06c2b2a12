package etcd

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// A store has one instance. Another is refused with the holder's name; the same
// data directory comes back at once, also after a kill; and whoever waits until
// the holder has stopped gets it.
func TestClaim(t *testing.T) {
	rulebook.Covers(t, "F9")
	dir := t.TempDir()
	store, err := New(Config{Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(dir, "e"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	parts.Start(t, time.Minute, store.Run)
	claim := func(id string, pid int) *Claim {
		return NewClaim([]string{store.Endpoint()}, Holder{ID: id, DataDir: "/data/" + id, Host: "host", PID: pid}, slog.New(slog.DiscardHandler))
	}
	refused := func(c *Claim) error {
		t.Helper()
		err := c.Run(t.Context(), func() { t.Error("two instances hold the store") })
		var held *HeldError
		if !errors.As(err, &held) {
			t.Fatalf("the second ends with %v", err)
		}
		return err
	}

	stop := parts.Start(t, time.Minute, claim("a", 1).Run)
	if err := refused(claim("b", 2)); !strings.Contains(err.Error(), "process 1 on host, whose data directory is /data/a") {
		t.Errorf("the holder is not named: %v", err)
	}
	stop()
	stop = parts.Start(t, time.Minute, claim("b", 2).Run)
	stop()

	// A kill leaves the key behind, with a lease that nobody keeps alive.
	killed := claim("c", 3)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{store.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := killed.take(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	refused(claim("d", 4))
	began := time.Now()
	stop = parts.Start(t, time.Minute, claim("c", 5).Run)
	if took := time.Since(began); took > claimLife/2 {
		t.Errorf("the same data directory waited %v", took)
	}
	if err := refused(claim("d", 4)); !strings.Contains(err.Error(), "process 5") {
		t.Errorf("the new process is not named: %v", err)
	}
	stop()
}

// A store that does not answer is named.
func TestClaimWithoutStore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c := NewClaim([]string{"unix://" + filepath.Join(t.TempDir(), "nobody")}, Holder{ID: "a"}, slog.New(slog.DiscardHandler))
	if err := c.Run(ctx, func() { t.Error("ready") }); err != nil {
		t.Errorf("the end of the context is no failure: %v", err)
	}
}
