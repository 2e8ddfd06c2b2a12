package embedded

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), eventually.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(eventually.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Who comes before anybody serves is sent away at once, who comes later is served.
func TestDoor(t *testing.T) {
	rulebook.Covers(t, "H8")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := newDoor(l.(*net.TCPListener))
	ended := make(chan error, 1)
	go func() { ended <- d.refuse(t.Context()) }()
	for range 3 {
		if _, err := dial(t, d).Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("too early: %v, want an end at once", err)
		}
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := d.Accept()
			if err != nil {
				return
			}
			if _, err := conn.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
			conn.Close()
		}
	}()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 3 {
		if got, err := io.ReadAll(dial(t, d)); string(got) != "hello" {
			t.Errorf("afterwards: %q, %v", got, err)
		}
	}
	l.Close()
	<-served
}

// The end comes whether anybody has served or not.
func TestDoorThatIsNeverOpened(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	d := newDoor(l.(*net.TCPListener))
	ended := make(chan error, 1)
	go func() { ended <- d.refuse(ctx) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
