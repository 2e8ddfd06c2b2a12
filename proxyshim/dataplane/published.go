package dataplane

import (
	"context"
	"sync"
)

// published is a value of which always the newest is wanted. Its zero value has
// none yet.
type published[T any] struct {
	mu    sync.Mutex
	value T
	has   bool
	next  chan struct{}
}

// set publishes a value, which must not change any more.
func (p *published[T]) set(v T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.value, p.has = v, true
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}

// get is the value, if there is one, and a channel that closes with the next.
func (p *published[T]) get() (v T, has bool, next <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.value, p.has, p.next
}

// wait waits for the first value and returns the newest.
func (p *published[T]) wait(ctx context.Context) (T, error) {
	for {
		v, has, next := p.get()
		if has {
			return v, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}
