package view_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// Versions that are read together are of one moment, whichever views came when,
// and however fast things change: here a Service is always written before the
// Pod that repeats what it says.
func TestTogether(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	same := func(a, b int) bool { return a == b }
	number := func(labels map[string]string) int {
		n, _ := strconv.Atoi(labels["n"])
		return n
	}
	services := view.NewSet(g, "services", func(r *view.Reader, name string, _ *int) int {
		s, ok := state.Get(r.Reader, state.Services, "ns", name)
		if !ok {
			return 0
		}
		return number(s.Labels)
	}, same)
	pods := view.NewSet(g, "pods", func(r *view.Reader, name string, _ *int) int {
		p, ok := state.Get(r.Reader, state.Pods, "ns", name)
		if !ok {
			return 0
		}
		return number(p.Labels)
	}, same)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	const writes = 2000
	written := make(chan struct{})
	running.Go(func() {
		defer close(written)
		for i := range writes {
			meta := metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"n": strconv.Itoa(i + 1)}}
			state.Put(st, state.Services, &corev1.Service{ObjectMeta: meta})
			state.Put(st, state.Pods, &corev1.Pod{ObjectMeta: meta})
		}
	})
	held := services.Acquire("a")
	for last := 0; last < writes; {
		pod := pods.Acquire("a") // Made anew each time.
		var s, p *view.Version[int]
		g.Together(func() { s, p = held.Current(), pod.Current() })
		pod.Release()
		if s.Value != p.Value && s.Value != p.Value+1 {
			t.Fatalf("the Service says %d at revision %d, and the Pod %d at revision %d", s.Value, s.Revision, p.Value, p.Revision)
		}
		select {
		case <-written:
			g.Flush()
			last = held.Current().Value
		default:
		}
	}
	held.Release()
	cancel()
	running.Wait()
}
