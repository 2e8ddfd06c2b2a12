package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A data directory that is taken away while it is used is noticed, and what
// another process makes in its place is left alone.
func TestDirectoryIsTakenAway(t *testing.T) {
	rulebook.Covers(t, "F9, F11")
	for _, row := range []struct {
		name string
		take func(t *testing.T, path string)
	}{
		{"removed", func(t *testing.T, path string) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}},
		{"moved away", func(t *testing.T, path string) {
			if err := os.Rename(path, path+"-moved"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			path := filepath.Join(t.TempDir(), "d")
			first, err := Open(ctx, path)
			if err != nil {
				t.Fatal(err)
			}
			guarded := make(chan error, 1)
			go func() { guarded <- first.Guard(ctx) }()
			row.take(t, path)
			second, err := Open(ctx, path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(second.RunFile(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var gone *GoneError
			if err := <-guarded; !errors.As(err, &gone) || gone.Path != path {
				t.Errorf("the first says %v", err)
			}
			if err := first.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(second.RunFile()); err != nil {
				t.Errorf("the first takes away what the second has: %v", err)
			}
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Nothing is said of a directory that stays.
func TestDirectoryStays(t *testing.T) {
	dir, err := Open(t.Context(), filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*guardPeriod)
	defer cancel()
	if err := dir.Guard(ctx); err != nil {
		t.Error(err)
	}
}
