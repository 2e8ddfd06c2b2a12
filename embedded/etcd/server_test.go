package etcd

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// What etcd waits for when it gives up stays: the process is to end.
		goleak.IgnoreTopFunction("go.etcd.io/etcd/server/v3/storage.OpenBackend"))
}

// start runs a member and returns its endpoint and a function that stops it.
func start(t *testing.T, dir string) (*clientv3.Client, func()) {
	t.Helper()
	socketDir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(socketDir) })
	server, err := New(Config{Dir: dir, Socket: filepath.Join(socketDir, "a b.sock"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	stop := parts.Start(t, time.Minute, server.Run)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop(), DialTimeout: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	return client, func() {
		client.Close()
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > eventually.Allowed(2*time.Second) {
			t.Errorf("stopping took %v", took)
		}
	}
}

func TestKeepsDataOverRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	client, stop := start(t, dir)
	if _, err := client.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	stop()
	// The directory may move.
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	client, stop = start(t, moved)
	defer stop()
	got, err := client.Get(t.Context(), "k")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
		t.Errorf("got %v, %v", got, err)
	}
}

// Nothing listens on TCP, and others of this machine cannot reach the socket.
func TestDirectoryIsPrivate(t *testing.T) {
	rulebook.Covers(t, "B54")
	dir := filepath.Join(t.TempDir(), "data")
	_, stop := start(t, dir)
	defer stop()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v, want mode 0700", info.Mode(), err)
	}
}

func TestStartFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.MkdirAll(filepath.Join(junk, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(junk, "member", "snap", "db"), bytes.Repeat([]byte("junk"), 20000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, dir, want string }{
		{"directory is a file", file, "creating etcd's directory"},
		{"database is junk", junk, "etcd gave up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, err := New(Config{Dir: tc.dir, Socket: filepath.Join(t.TempDir(), "s")})
			if err != nil {
				t.Fatal(err)
			}
			err = server.Run(t.Context(), func() { t.Error("ready") })
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestLongSocketPath(t *testing.T) {
	if _, err := New(Config{Dir: "d", Socket: "/" + strings.Repeat("x", MaxSocketPath)}); err == nil {
		t.Error("no error")
	}
	l, err := net.Listen("unix", filepath.Join(os.TempDir(), strings.Repeat("x", MaxSocketPath-len(os.TempDir())-1)))
	if err != nil {
		t.Fatalf("the longest path is refused: %v", err)
	}
	l.Close()
}

// A fatal line of etcd's log becomes an error, and is written.
func TestFatalLogLine(t *testing.T) {
	var out bytes.Buffer
	death := newDeath()
	log := zap.New(&logCore{log: slog.New(slog.NewTextHandler(&out, nil))}, zap.WithFatalHook(death))
	go log.Fatal("failed to commit tx", zap.Error(errors.New("no space left on device")))
	<-death.happened
	if want := "etcd gave up: failed to commit tx: no space left on device"; death.err.Error() != want {
		t.Errorf("got %v, want %s", death.err, want)
	}
	if !strings.Contains(out.String(), "no space left") {
		t.Errorf("log: %s", out.String())
	}
}
