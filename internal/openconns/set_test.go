package openconns

import (
	"net"
	"sync"
	"testing"
)

// fake is a connection that counts how often it is closed.
type fake struct {
	net.Conn
	mu     sync.Mutex
	closes int
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closes++
	return nil
}

func (f *fake) closed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closes
}

// wrapped must not be closed itself: it would wait for its peer.
type wrapped struct {
	net.Conn
	t *testing.T
}

func (w wrapped) Unwrap() net.Conn { return w.Conn }

func (w wrapped) Close() error {
	w.t.Error("the outer connection was closed")
	return nil
}

func TestSet(t *testing.T) {
	var s Set
	open, gone, tracked, left, late := &fake{}, &fake{}, &fake{}, &fake{}, &fake{}
	outer := wrapped{open, t}
	if !s.Add(outer) || !s.Add(gone) {
		t.Fatal("not added")
	}
	s.Remove(gone)
	if _, ok := s.Track(tracked); !ok {
		t.Fatal("not tracked")
	}
	c, _ := s.Track(left)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close() // harmless
	if s.Add(late) {
		t.Error("a closed set takes connections")
	}
	for name, test := range map[string]struct {
		conn *fake
		want bool
	}{"open": {open, true}, "removed": {gone, false}, "tracked": {tracked, true}, "too late": {late, true}} {
		if got := test.conn.closed() > 0; got != test.want {
			t.Errorf("%s: closed %v, want %v", name, got, test.want)
		}
	}
	if n := left.closed(); n != 1 {
		t.Errorf("a connection that left was closed %d times, want once, by its owner", n)
	}
}

// Connections come and go while the set is closed: none stays open.
func TestSetClosesWhatComes(t *testing.T) {
	var s Set
	var group sync.WaitGroup
	conns := make([]*fake, 100)
	for i := range conns {
		conns[i] = &fake{}
		group.Go(func() { s.Track(conns[i]) })
	}
	group.Go(s.Close)
	group.Wait()
	for i, c := range conns {
		if c.closed() == 0 {
			t.Errorf("connection %d is open", i)
		}
	}
}
