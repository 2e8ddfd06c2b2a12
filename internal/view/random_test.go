package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// families are views in three levels, whose dependencies change with what they
// read: a first one names another that is to be read, or none.
type families struct {
	first, second, third *view.Set[string, string]
	// computed and again count the computations of views, and those of views that
	// had a value, since they were cleared.
	computed, again map[string]int
}

func (f *families) count(view string, previous *string) {
	f.computed[view]++
	if previous != nil {
		f.again[view]++
	}
}

func newFamilies(g *view.Graph) *families {
	f := &families{computed: map[string]int{}, again: map[string]int{}}
	same := func(a, b string) bool { return a == b }
	f.first = view.NewSet(g, "family-1", func(r *view.Reader, key string, previous *string) string {
		f.count("first "+key, previous)
		return firstOf(r.Reader, key)
	}, same)
	f.second = view.NewSet(g, "family-2", func(r *view.Reader, key string, previous *string) string {
		f.count("second "+key, previous)
		value := view.Use(r, f.first, key)
		for _, other := range strings.Fields(value) {
			value += "+" + view.Use(r, f.first, other) + view.Use(r, f.first, other)
		}
		return value
	}, same)
	f.third = view.NewSet(g, "family-3", func(r *view.Reader, key string, previous *string) string {
		f.count("third "+key, previous)
		value := podsOf(r.Reader, key)
		if value == "" {
			return view.Use(r, f.first, "a")
		}
		return value + "/" + view.Use(r, f.second, key)
	}, same)
	return f
}

// firstOf is what a Service says is to be read, and with "b" the IP of the pod of that name.
func firstOf(r *state.Reader, key string) string {
	service, ok := state.Get(r, state.Services, "ns", key)
	if !ok {
		return ""
	}
	read := service.Labels["read"]
	if read == "b" {
		if pod, ok := state.Get(r, state.Pods, "ns", "b"); ok {
			read += " " + pod.Status.PodIP
		}
	}
	return read
}

// podsOf lists the pods that have a key: by their IP, and by a label.
func podsOf(r *state.Reader, key string) string {
	var found []string
	for pod := range state.ListWhere(r, state.Pods, "ns", func(pod *corev1.Pod) bool { return pod.Labels["key"] == key }) {
		found = append(found, pod.Name)
	}
	for pod := range state.By(r, state.Pods, state.PodsByIP, key) {
		found = append(found, pod.Name+"@"+key)
	}
	return strings.Join(found, ",")
}

// want is what the view of a family should be at last.
func want(r *state.Reader, family, key string) string {
	switch family {
	case "first":
		return firstOf(r, key)
	case "second":
		value := firstOf(r, key)
		for _, other := range strings.Fields(value) {
			value += "+" + firstOf(r, other) + firstOf(r, other)
		}
		return value
	default:
		if value := podsOf(r, key); value != "" {
			return value + "/" + want(r, "second", key)
		}
		return firstOf(r, "a")
	}
}

// Views that use others, whose dependencies come and go, acquired and released
// at any time, are what their functions make of the present state; each is
// computed again once per Flush at most, and nothing is left when nobody holds
// one. One that is dropped by its last user and used by another in the same
// Flush is made anew.
func TestRandomGraph(t *testing.T) {
	keys := []string{"a", "b", "c", "1.1.1.1"}
	rapid.Check(t, func(rt *rapid.T) {
		st, err := state.New(state.Config{Kinds: []*state.KindInfo{&state.Services.KindInfo, &state.Pods.KindInfo}})
		if err != nil {
			rt.Fatal(err)
		}
		g := view.NewGraph(st)
		f := newFamilies(g)
		sets := map[string]*view.Set[string, string]{"first": f.first, "second": f.second, "third": f.third}
		type holder struct {
			family string
			view   *view.View[string, string]
			seen   *view.Version[string]
		}
		var held []*holder
		version := 0
		key := func() string { return rapid.SampledFrom(keys).Draw(rt, "key") }
		meta := func(labels map[string]string) metav1.ObjectMeta {
			version++
			return metav1.ObjectMeta{Namespace: "ns", Name: key(), ResourceVersion: strconv.Itoa(version), Labels: labels}
		}
		flush := func() {
			clear(f.again)
			g.Flush()
			for what, times := range f.again {
				if times > 1 {
					rt.Fatalf("%s is computed again %d times", what, times)
				}
			}
			r := st.Snapshot().Reader()
			for _, h := range held {
				if got, want := h.view.Current().Value, want(r, h.family, h.view.Key); got != want {
					rt.Fatalf("%s %s is %q, want %q", h.family, h.view.Key, got, want)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put a Service": func(rt *rapid.T) {
				read := rapid.SampledFrom([]string{"", "a", "b", "c a", "c c"}).Draw(rt, "read")
				state.Put(st, state.Services, &corev1.Service{ObjectMeta: meta(map[string]string{"read": read})})
			},
			"put a Pod": func(rt *rapid.T) {
				pod := &corev1.Pod{ObjectMeta: meta(map[string]string{"key": key()})}
				pod.Status.PodIP = rapid.SampledFrom([]string{"1.1.1.1", "1.1.1.2"}).Draw(rt, "ip")
				state.Put(st, state.Pods, pod)
			},
			"remove": func(*rapid.T) {
				name := key()
				state.Remove(st, state.Services, "ns", name)
				state.Remove(st, state.Pods, "ns", name)
			},
			"acquire": func(rt *rapid.T) {
				family := rapid.SampledFrom([]string{"first", "second", "third"}).Draw(rt, "family")
				v := sets[family].Acquire(key())
				held = append(held, &holder{family, v, v.Current()})
			},
			"release": func(rt *rapid.T) {
				if len(held) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
				held[i].view.Release()
				held = slices.Delete(held, i, i+1)
			},
			"flush": func(*rapid.T) { flush() },
			"": func(*rapid.T) {
				for _, h := range held {
					select {
					case <-h.seen.Superseded():
						if now := h.view.Current(); now.Number <= h.seen.Number {
							rt.Fatalf("version %d is superseded by %d", h.seen.Number, now.Number)
						}
						h.seen = h.view.Current()
					default:
						if h.view.Current() != h.seen {
							rt.Fatalf("nobody is told of version %d", h.view.Current().Number)
						}
					}
				}
			},
		})
		flush()
		for _, h := range held {
			h.view.Release()
		}
		if g.Size() != 0 || f.first.Held()+f.second.Held()+f.third.Held() != 0 {
			rt.Fatalf("left are %d topics, %d, %d and %d views", g.Size(), f.first.Held(), f.second.Held(), f.third.Held())
		}
		clear(f.computed)
		state.Remove(st, state.Services, "ns", "a")
		g.Flush()
		if len(f.computed) != 0 {
			rt.Fatalf("computed for nobody: %v", f.computed)
		}
	})
}

// Run keeps views current, and is told nothing more once it has ended.
func TestRunFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newState(t)
		g := view.NewGraph(st)
		v := newFamilies(g).second.Acquire("a")
		defer v.Release()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		for i := range 3 {
			read := fmt.Sprint("x", i)
			state.Put(st, state.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"read": read}}})
			synctest.Wait()
			if got, want := v.Current().Value, read+"+"; got != want {
				t.Fatalf("value %q, want %q", got, want)
			}
		}
		cancel(errors.New("the test is over"))
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		state.Remove(st, state.Services, "ns", "a")
		before := v.Current()
		if g.Flush(); v.Current() != before {
			t.Error("told of a change after Run has ended")
		}
	})
}

// A family can use only earlier ones: one that uses itself could not come to rest.
func TestUseOfALaterFamily(t *testing.T) {
	g := view.NewGraph(newState(t))
	same := func(a, b string) bool { return a == b }
	var set *view.Set[string, string]
	set = view.NewSet(g, "family-4", func(r *view.Reader, key string, _ *string) string { return view.Use(r, set, key+"x") }, same)
	if fault := set.Acquire("a").Current().Fault; fault == nil {
		t.Error("a family uses itself")
	}
}
