package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group runs goroutines of one part. It is errgroup.Group of golang.org/x/sync
// with names, and without its way to let a panic end the process: here that is
// the error with which the part ends, and it names the goroutine.
//
// The zero Group runs any number of goroutines and cancels nothing.
type Group struct {
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup
	turns  chan struct{}
	once   sync.Once
	err    error
}

// NewGroup returns a group, and a context that ends when the first of its
// goroutines returns an error, or when Wait returns.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel}, ctx
}

// SetLimit bounds how many goroutines run at a time. It is called before Go.
func (g *Group) SetLimit(n int) { g.turns = make(chan struct{}, n) }

// Go runs f in a goroutine that errors call by name. It waits for a turn if
// there is a limit.
func (g *Group) Go(name string, f func() error) {
	if g.turns != nil {
		g.turns <- struct{}{}
	}
	g.wait.Add(1)
	start(name, f, g.ended)
}

// Go runs f alone in a goroutine that errors call by name. The channel gets
// what it returned, or its panic, and is closed after that.
func Go(name string, f func() error) (ended <-chan error) {
	end := make(chan error, 1)
	start(name, f, func(err error) {
		end <- err
		close(end)
	})
	return end
}

func start(name string, f func() error, ended func(error)) {
	go func() {
		// What stays if f neither returns nor panics: runtime.Goexit.
		err := error(&PanicError{Goroutine: name, Value: errGoexit})
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Goroutine: name, Value: v, Stack: debug.Stack()}
			}
			ended(err)
		}()
		err = f()
	}()
}

func (g *Group) ended(err error) {
	if err != nil {
		g.once.Do(func() {
			g.err = err
			if g.cancel != nil {
				g.cancel(err)
			}
		})
	}
	if g.turns != nil {
		<-g.turns
	}
	g.wait.Done()
}

// Wait waits for all goroutines and returns the first error.
func (g *Group) Wait() error {
	g.wait.Wait()
	if g.cancel != nil {
		g.cancel(g.err)
	}
	return g.err
}

// Cancel ends the group's context and waits for all goroutines; it returns the first error.
func (g *Group) Cancel() error {
	g.cancel(nil)
	return g.Wait()
}

// PanicError is a panic that was caught in a part.
type PanicError struct {
	// Goroutine is the name under which a Group started it; empty for a part's own.
	Goroutine string
	Value     any
	// Stack is that of the goroutine that panicked.
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Goroutine == "" {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return fmt.Sprintf("%s: panic: %v", e.Goroutine, e.Value)
}

// Panicked says whether an error is, or was caused by, a panic.
func Panicked(err error) bool {
	var panicked *PanicError
	return errors.As(err, &panicked)
}
