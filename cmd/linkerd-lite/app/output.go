package app

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// watchedOutput is an output of which we want to know when nobody reads it any
// more: by default a program ends at its next write then, at once, and leaves
// behind whatever it has started.
type watchedOutput struct {
	io.Writer
	once   sync.Once
	closed chan struct{}
}

func newWatchedOutput(out io.Writer) *watchedOutput {
	return &watchedOutput{Writer: out, closed: make(chan struct{})}
}

func (o *watchedOutput) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.once.Do(func() { close(o.closed) })
	}
	return n, err
}
