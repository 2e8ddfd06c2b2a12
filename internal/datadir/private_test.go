package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// Whatever mode a data directory had, only its owner can enter it.
func TestDataDirectoryIsPrivate(t *testing.T) {
	rulebook.Covers(t, "F10")
	for _, before := range []os.FileMode{0, 0o755, 0o777, 0o500} {
		path := filepath.Join(t.TempDir(), "d")
		if before != 0 {
			if err := os.Mkdir(path, before); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, before); err != nil {
				t.Fatal(err)
			}
		}
		dir, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got := mode(t, path); got != private {
			t.Errorf("a directory of mode %#o has %#o afterwards", before, got)
		}
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A directory that is not ours keeps its mode.
func TestForeignDirectoryStaysAsItIs(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := mode(t, path)
	if _, err := Open(t.Context(), path); err == nil || mode(t, path) != before {
		t.Errorf("error %v, mode %#o before and %#o after", err, before, mode(t, path))
	}
}

// Without a home, the state lies where others can make files: a link or a file of
// theirs in its place is refused.
func TestTemporaryHome(t *testing.T) {
	rulebook.Covers(t, "F10")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/")
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, temporaryHome()); err != nil {
		t.Fatal(err)
	}
	path, err := Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is no directory") {
		t.Errorf("a link in its place: %v", err)
	}
	if err := os.Remove(temporaryHome()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(temporaryHome(), 0o777); err != nil {
		t.Fatal(err)
	}
	dir, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if got := mode(t, temporaryHome()); got != private {
		t.Errorf("mode %#o", got)
	}
}

// Who cannot write at home is found all the same.
func TestAnnounceWithoutHome(t *testing.T) {
	rulebook.Covers(t, "B86, C8")
	if os.Getuid() == 0 {
		// Root can write everywhere: a file in the way stands for what cannot be made.
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_STATE_HOME", file)
	} else {
		t.Setenv("XDG_STATE_HOME", "/nonexistent")
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, _, err := OpenTemporary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	withdraw, err := dir.Announce()
	if err != nil {
		t.Fatal(err)
	}
	if found := Instances(); !slices.Equal(found, []string{dir.Path()}) {
		t.Errorf("found %v, want %s", found, dir.Path())
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if found := Instances(); len(found) > 0 {
		t.Errorf("found %v after the end", found)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}
