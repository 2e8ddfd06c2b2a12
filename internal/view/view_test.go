package view_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

func newState(t *testing.T) *state.State {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func service(ns, name, version string, labels map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, ResourceVersion: version, Labels: labels}}
}

// names lists a namespace's Services that carry the label.
func names(r *view.Reader, ns string) string {
	var found []string
	for s := range state.ListWhere(r.Reader, state.Services, ns, func(s *corev1.Service) bool { return s.Labels["pick"] != "" }) {
		found = append(found, s.Name+"="+s.Labels["pick"])
	}
	return strings.Join(found, ",")
}

func TestViewFollowsWhatItReads(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	computed := 0
	set := view.NewSet(g, "family-1", func(r *view.Reader, ns string, _ *string) string {
		computed++
		return names(r, ns)
	}, func(a, b string) bool { return a == b })

	v := set.Acquire("a")
	first := v.Current()
	if first.Value != "" || computed != 1 {
		t.Fatalf("at first: value %q, computed %d times", first.Value, computed)
	}
	if g.Size() != 1 {
		t.Errorf("depends on %d topics, want 1", g.Size())
	}
	state.Put(st, state.Services, service("a", "x", "1", map[string]string{"pick": "1"}))
	g.Flush()
	select {
	case <-first.Superseded():
	default:
		t.Fatal("the first version is not superseded")
	}
	if got := v.Current().Value; got != "x=1" {
		t.Fatalf("value %q, want x=1", got)
	}
	second := v.Current()
	before := computed
	state.Put(st, state.Services, service("a", "y", "2", nil))
	state.Put(st, state.Services, service("b", "x", "3", map[string]string{"pick": "1"}))
	g.Flush()
	if v.Current() != second || computed != before {
		t.Error("irrelevant objects made it compute or publish")
	}
	state.Put(st, state.Services, service("a", "x", "4", map[string]string{"pick": "1", "other": "1"}))
	g.Flush()
	if v.Current() != second || computed == before {
		t.Error("an equal result must be computed but not published")
	}
	state.Remove(st, state.Services, "a", "x")
	g.Flush()
	if got := v.Current().Value; got != "" {
		t.Errorf("after the delete: %q", got)
	}
	v.Release()
	if g.Size() != 0 || set.Held() != 0 {
		t.Errorf("after the release: %d topics, %d views", g.Size(), set.Held())
	}
}

func TestSharedUse(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	equal := func(a, b string) bool { return a == b }
	base := view.NewSet(g, "family-2", func(r *view.Reader, ns string, _ *string) string { return names(r, ns) }, equal)
	upper := view.NewSet(g, "family-3", func(r *view.Reader, ns string, _ *string) string {
		return strings.ToUpper(view.Use(r, base, ns))
	}, equal)
	one, two := upper.Acquire("a"), upper.Acquire("a")
	if one != two || base.Held() != 1 {
		t.Fatal("views are not shared")
	}
	state.Put(st, state.Services, service("a", "x", "1", map[string]string{"pick": "1"}))
	g.Flush()
	if got := one.Current().Value; got != "X=1" {
		t.Fatalf("value %q, want X=1", got)
	}
	one.Release()
	two.Release()
	if g.Size() != 0 || base.Held() != 0 || upper.Held() != 0 {
		t.Error("views outlive their holders")
	}
}

// Whatever the order and grouping of events, a view ends as if it had been
// computed from the final state.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := newState(t)
		g := view.NewGraph(st)
		set := view.NewSet(g, "family-4", func(r *view.Reader, ns string, _ *string) string { return names(r, ns) }, func(a, b string) bool { return a == b })
		held := map[string]*view.View[string, string]{"a": set.Acquire("a")}
		final := map[string]map[string]string{"a": {}, "b": {}}
		version := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			ns := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "ns")
			name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "name")
			version++
			if rapid.Bool().Draw(rt, "delete") {
				state.Remove(st, state.Services, ns, name)
				delete(final[ns], name)
			} else {
				pick := rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "pick")
				state.Put(st, state.Services, service(ns, name, string(rune('0'+version)), map[string]string{"pick": pick}))
				delete(final[ns], name)
				if pick != "" {
					final[ns][name] = pick
				}
			}
			if rapid.Bool().Draw(rt, "flush") {
				g.Flush()
			}
			if _, ok := held[ns]; !ok && rapid.Bool().Draw(rt, "acquire") {
				held[ns] = set.Acquire(ns)
			}
		}
		g.Flush()
		for ns, v := range held {
			var want []string
			for _, name := range slices.Sorted(maps.Keys(final[ns])) {
				want = append(want, name+"="+final[ns][name])
			}
			if got := v.Current().Value; got != strings.Join(want, ",") {
				rt.Fatalf("%s: %q, want %q", ns, got, want)
			}
		}
	})
}

// A view that is first computed between two changes of an object must not miss
// the second, though both reach the graph as one.
func TestAcquireBetweenTwoChanges(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	set := view.NewSet(g, "family-5", func(r *view.Reader, ns string, _ *string) string { return names(r, ns) }, func(a, b string) bool { return a == b })
	state.Put(st, state.Services, service("a", "x", "1", nil))
	state.Put(st, state.Services, service("a", "x", "2", map[string]string{"pick": "1"}))
	v := set.Acquire("a")
	if got := v.Current().Value; got != "x=1" {
		t.Fatalf("value %q, want x=1", got)
	}
	state.Put(st, state.Services, service("a", "x", "3", nil))
	g.Flush()
	if got := v.Current().Value; got != "" {
		t.Errorf("value %q, want none", got)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	g := view.NewGraph(newState(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A view that uses another is computed after it, and once per change, however
// many of the things it depends on have changed.
func TestUsingViewsComeLast(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	same := func(a, b string) bool { return a == b }
	computed := 0
	first := view.NewSet(g, "family-6", func(r *view.Reader, ns string, _ *string) string { return names(r, ns) }, same)
	last := view.NewSet(g, "family-7", func(r *view.Reader, ns string, _ *string) string {
		computed++
		return names(r, ns) + "/" + view.Use(r, first, ns)
	}, same)
	v := last.Acquire("a")
	defer v.Release()
	for i := range 50 {
		before, earlier := computed, v.Current()
		pick := strings.Repeat("x", i%7+1)
		state.Put(st, state.Services, service("a", "s", strconv.Itoa(i+1), map[string]string{"pick": pick}))
		g.Flush()
		if want := "s=" + pick + "/s=" + pick; v.Current().Value != want {
			t.Fatalf("value %q, want %q", v.Current().Value, want)
		}
		if computed != before+1 || v.Current().Number != earlier.Number+1 {
			t.Fatalf("computed %d times, %d new versions", computed-before, v.Current().Number-earlier.Number)
		}
	}
}

// What a view uses is of the moment at which the view itself reads, whatever
// is written meanwhile, and follows afterwards.
func TestUseOfTheSameMoment(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	same := func(a, b string) bool { return a == b }
	first := view.NewSet(g, "family-8", func(r *view.Reader, ns string, _ *string) string { return names(r, ns) }, same)
	written := false
	last := view.NewSet(g, "family-9", func(r *view.Reader, ns string, _ *string) string {
		if !written {
			written = true
			state.Put(st, state.Services, service("a", "x", "1", map[string]string{"pick": "1"}))
		}
		return names(r, ns) + "/" + view.Use(r, first, ns)
	}, same)
	v := last.Acquire("a")
	defer v.Release()
	if got := v.Current().Value; got != "/" {
		t.Errorf("value %q of two moments", got)
	}
	g.Flush()
	if got := v.Current().Value; got != "x=1/x=1" {
		t.Errorf("value %q, want x=1/x=1", got)
	}
}

// A follower is told of each computation, also of those that publish nothing,
// until it stops.
func TestFollow(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	services := view.NewSet(g, "family-101", func(r *view.Reader, key string, _ *string) string {
		if found, ok := state.Get(r.Reader, state.Services, "ns", key); ok {
			return found.Labels["read"]
		}
		return ""
	}, func(a, b string) bool { return a == b })
	var told []string
	stop := services.Follow(func(key, value string) { told = append(told, key+"="+value) })
	v := services.Acquire("a")
	defer v.Release()
	put := func(read, other string) {
		state.Put(st, state.Services, service("ns", "a", "", map[string]string{"read": read, "other": other}))
		g.Flush()
	}
	put("x", "1")
	put("x", "2")
	if v.Current().Number != 2 {
		t.Errorf("version %d, want the second", v.Current().Number)
	}
	stop()
	put("y", "1")
	if want := []string{"a=", "a=x", "a=x"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
