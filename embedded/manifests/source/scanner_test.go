package source

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

func TestLister(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"b.yaml", "a.yml", "c.JSON", "sub/deep/d.yaml", "kustomized/kustomization.yml", "kustomized/raw.yaml", "kustomized/in/raw.yaml",
		"README.md", ".hidden.yaml", ".git/x.yaml", "..data/x.yaml", "e.yaml~", ".e.yaml.swp", "4913", "#e.yaml#", "data/inventory.json",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	must(t, os.Symlink("sub", filepath.Join(dir, "zub")))
	must(t, os.Symlink("b.yaml", filepath.Join(dir, "y.yaml")))
	watched := map[string]bool{}
	l := lister{exclude: []string{filepath.Join(dir, "data")}, watch: func(dir, name string) { watched[dir+":"+name] = true }}
	tree := l.list([]root{{shown: "m", abs: dir}})
	var got []string
	for _, f := range tree.files {
		got = append(got, f.shown)
	}
	for _, f := range tree.kustomizations {
		got = append(got, "kustomization "+f.shown)
	}
	// What is reached twice counts once.
	want := []string{"m/a.yml", "m/b.yaml", "m/c.JSON", "m/sub/deep/d.yaml", "kustomization m/kustomized/kustomization.yml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(tree.faults) > 0 {
		t.Errorf("faults: %v", tree.faults)
	}
	for _, place := range []string{dir + ":", dir + "/sub/deep:", dir + "/kustomized:", filepath.Dir(dir) + ":" + filepath.Base(dir)} {
		if !watched[place] {
			t.Errorf("%s is not watched", place)
		}
	}
	if watched[dir+"/data:"] || watched[dir+"/.git:"] {
		t.Errorf("watched: %v", watched)
	}
}

func TestListerUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can read everything")
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0))
	l := lister{watch: func(string, string) {}}
	tree := l.list([]root{{shown: "m", abs: dir}})
	want := []problems.Problem{{File: "m/sub", Message: "read directory: permission denied; its objects stay as they are"}}
	if diff := cmp.Diff(want, tree.faults); diff != "" {
		t.Error(diff)
	}
}

// TestScannerReads only what changed, and forgives coarse clocks.
func TestScannerReads(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	now := time.Now()
	s, err := NewScanner(Config{Dirs: []string{dir}, Watch: func(string, string) {}, Now: func() time.Time { return now }})
	must(t, err)
	must(t, os.WriteFile(path, []byte(cm("a", "1")), 0o644))
	stamp := now.Add(-time.Hour)
	must(t, os.Chtimes(path, stamp, stamp))
	first := s.Scan()
	source := first.byPath[path]
	if !source.Changed.Equal(stamp) {
		t.Errorf("changed %v, want the time of modification %v", source.Changed, stamp)
	}
	if again := s.Scan(); again.byPath[path] != source || len(again.Saved) > 0 {
		t.Error("an unchanged file was read again")
	}
	now = now.Add(time.Second)
	must(t, os.Chtimes(path, now, now))
	if again := s.Scan(); again.byPath[path] != source || !again.Saved[path] {
		t.Error("a touched file is to be saved, and the same")
	}
	// Same size, same time: within the clock's grain it is read again.
	must(t, os.WriteFile(path, []byte(cm("a", "2")), 0o644))
	must(t, os.Chtimes(path, now, now))
	if again := s.Scan(); again.byPath[path] == source || !again.byPath[path].Changed.Equal(now) {
		t.Error("a write within the grain of the clock was missed")
	}
	must(t, os.Remove(path))
	now = now.Add(time.Minute)
	if gone := s.Scan(); gone.byPath[path] != nil || !gone.changed(path).Equal(now) {
		t.Error("the file is not gone")
	}
	s.Forget(nil)
	now = now.Add(time.Minute)
	s.Forget(nil)
	if len(s.files) > 0 {
		t.Error("a gone file is remembered for ever")
	}
}

func TestChangedBeforeStart(t *testing.T) {
	dir := t.TempDir()
	stamp := time.Now().Add(-time.Hour).Truncate(time.Second)
	must(t, os.Chtimes(dir, stamp, stamp))
	s, err := NewScanner(Config{Dirs: []string{dir}, Watch: func(string, string) {}, Now: time.Now})
	must(t, err)
	if got := s.Scan().changed(filepath.Join(dir, "gone", "a.yaml")); !got.Equal(stamp) {
		t.Errorf("changed %v, want that of the nearest directory %v", got, stamp)
	}
}

// BenchmarkScan is the part of a save's latency that grows with the directory.
func BenchmarkScan(b *testing.B) {
	t := b
	dir := b.TempDir()
	stamp := time.Now().Add(-time.Hour)
	for i := range 1000 {
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		must(b, os.WriteFile(path, []byte(cm(fmt.Sprint("c", i), "1")), 0o644))
		must(b, os.Chtimes(path, stamp, stamp))
	}
	s, err := NewScanner(Config{Dirs: []string{dir}, Watch: func(string, string) {}, Now: time.Now})
	must(t, err)
	s.Scan()
	b.Run("files", func(b *testing.B) {
		for b.Loop() {
			s.Scan()
		}
	})
}

// BenchmarkParse is a file of a thousand Documents of which one changes.
func BenchmarkParse(b *testing.B) {
	var parts []string
	for i := range 1000 {
		parts = append(parts, cm(fmt.Sprint("c", i), "1"))
	}
	_, _, cache := Parse("x.yaml", []byte(docs(parts...)), nil)
	n := 0
	for b.Loop() {
		n++
		parts[500] = cm("c500", fmt.Sprint(n))
		var faults []problems.Problem
		if _, faults, cache = Parse("x.yaml", []byte(docs(parts...)), cache); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}
