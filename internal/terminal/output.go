package terminal

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// Output is an output of which we want to know when nobody reads it any
// more: by default a program ends at its next write then, at once, and leaves
// behind whatever it has started.
type Output struct {
	io.Writer
	once   sync.Once
	closed chan struct{}
}

// NewOutput watches an output.
func NewOutput(out io.Writer) *Output {
	return &Output{Writer: out, closed: make(chan struct{})}
}

// Closed is closed when nobody reads the output any more.
func (o *Output) Closed() <-chan struct{} { return o.closed }

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.once.Do(func() { close(o.closed) })
	}
	return n, err
}
