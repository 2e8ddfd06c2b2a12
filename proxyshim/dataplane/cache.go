package dataplane

import (
	"context"
	"sync"
	"time"
)

// cache holds what is asked of the control plane while somebody uses it, and for
// some time after. Values run until their context ends.
type cache[K comparable, V any] struct {
	// ctx is that of the proxy; start makes a value, and starts it.
	ctx   context.Context
	idle  time.Duration
	start func(context.Context, K) V

	mu      sync.Mutex
	entries map[K]*cacheEntry[V]
}

type cacheEntry[V any] struct {
	value  V
	cancel context.CancelFunc
	users  int
	evict  *time.Timer
}

// acquire returns the value of k until release is called, once.
func (c *cache[K, V]) acquire(k K) (value V, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		ctx, cancel := context.WithCancel(c.ctx)
		e = &cacheEntry[V]{value: c.start(ctx, k), cancel: cancel}
		if c.entries == nil {
			c.entries = map[K]*cacheEntry[V]{}
		}
		c.entries[k] = e
	}
	e.users++
	if e.evict != nil {
		e.evict.Stop()
	}
	return e.value, func() { c.release(k, e) }
}

func (c *cache[K, V]) release(k K, e *cacheEntry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.users > 0 {
		return
	}
	e.evict = time.AfterFunc(c.idle, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if e.users == 0 && c.entries[k] == e {
			delete(c.entries, k)
			e.cancel()
		}
	})
}
