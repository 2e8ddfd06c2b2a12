package embedded

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// door is a listener that is bound before anybody serves on it. Until Accept is
// called for the first time, refuse closes each connection at once: a client
// that is told so comes back, one that waits for an answer does not notice for
// seconds that it could (H8).
type door struct {
	*net.TCPListener
	once   sync.Once
	opened chan struct{}
	// refused is closed once refuse does not accept any longer.
	refused chan struct{}
}

func newDoor(l *net.TCPListener) *door {
	return &door{TCPListener: l, opened: make(chan struct{}), refused: make(chan struct{})}
}

// refuse accepts and closes connections until the door is opened or ctx ends.
// It is called once.
func (d *door) refuse(ctx context.Context) error {
	defer close(d.refused)
	stop := context.AfterFunc(ctx, d.wake)
	defer stop()
	for {
		conn, err := d.TCPListener.Accept()
		if err == nil {
			// One that came while the door was opened is closed too: it was early.
			conn.Close()
		}
		select {
		case <-d.opened:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
	}
}

// wake makes a call of Accept return.
func (d *door) wake() { _ = d.SetDeadline(time.Unix(1, 0)) }

// Accept opens the door, and accepts like any listener.
func (d *door) Accept() (net.Conn, error) {
	d.once.Do(func() {
		close(d.opened)
		d.wake()
		<-d.refused
		_ = d.SetDeadline(time.Time{})
	})
	return d.TCPListener.Accept()
}
