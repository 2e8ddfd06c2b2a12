package state

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// contactPatience is how long lists and watches may fail before that is a
	// problem, and how long they have to go well before it is none any more.
	contactPatience = 5 * time.Second
	// silencePatience is how long they may take when none has failed.
	silencePatience = 15 * time.Second
)

// errSilent is why a kind is not followed when no request has failed.
var errSilent = errors.New("the API server does not answer")

// contact is what a reflector asks and what it fills, and knows whether it
// follows its kind: whether that has been listed and a watch of it is open. A
// kind that is not followed for some time is a problem, as what is known of it
// may be old.
//
// The reflector does not tell: it goes on by itself when a connection is
// refused, and waits for ever for an answer that does not come.
type contact struct {
	cache.ListerWatcher
	cache.ReflectorStore
	// say records why the kind is not followed; nil if it is.
	say func(error) *problems.News

	mu             sync.Mutex
	listed, opened bool
	// following is listed and opened, as it was when timer was set.
	following bool
	err       error
	timer     *time.Timer
	ended     bool
}

// begin is called before the kind is listed anew.
func (c *contact) begin() { c.update(func() { c.listed, c.opened = false, false }) }

// absent is called when the kind is not served: there is nothing to follow.
func (c *contact) absent() { c.update(func() { c.listed, c.opened = true, true }) }

// end is called when nobody follows the kind any more; nothing is said from then on.
func (c *contact) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// update changes what is known, and sets the time at which it is judged if the
// kind is followed from now on, or no longer.
func (c *contact) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	following := c.listed && c.opened
	if c.ended || c.timer != nil && following == c.following {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.following = following
	c.timer = time.AfterFunc(contactPatience, c.judge)
}

// judge says how things are.
func (c *contact) judge() { c.judged().Log() }

func (c *contact) judged() *problems.News {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	if c.following {
		c.err = nil
		return c.say(nil)
	}
	if c.err == nil {
		// Unless it is known better by then.
		c.err = errSilent
		c.timer = time.AfterFunc(silencePatience-contactPatience, c.judge)
		return nil
	}
	// The reason may change.
	c.timer = time.AfterFunc(contactPatience, c.judge)
	return c.say(c.err)
}

// ListWithContext implements cache.ListerWatcher.
func (c *contact) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := cache.ToListerWithContext(c.ListerWatcher).ListWithContext(ctx, options)
	c.note(err)
	return list, err
}

// WatchWithContext implements cache.ListerWatcher.
func (c *contact) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	c.update(func() { c.opened = false })
	w, err := cache.ToWatcherWithContext(c.ListerWatcher).WatchWithContext(ctx, options)
	if err == nil {
		c.update(func() { c.opened = true })
	}
	c.note(err)
	return w, err
}

// Replace implements cache.ReflectorStore.
func (c *contact) Replace(list []any, version string) error {
	err := c.ReflectorStore.Replace(list, version)
	c.update(func() { c.listed = true })
	return err
}

// note takes note of an error, unless that is in the normal course of things: a
// version has expired, the kind is not served, a list cannot be streamed.
func (c *contact) note(err error) {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || errors.Is(err, context.Canceled) {
		return
	}
	c.update(func() { c.opened, c.err = false, err })
}
