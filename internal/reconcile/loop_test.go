package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// plan is the value that a Service's label "is" should have: that of "want".
type plan struct{ value, version string }

func (p plan) Empty() bool           { return p.value == "" }
func (p plan) Version(string) string { return p.version }

// world is Services that a loop writes, each write with a version of its own.
type world struct {
	t     *testing.T
	state *state.State
	graph *view.Graph
	plans *view.Set[reconcile.Key, plan]

	mu      sync.Mutex
	version int
	// writes are the values written; lost stores the last one that was held.
	writes []string
	lost   func()
	// hold keeps what is written from being seen; refuse refuses it.
	hold, refuse bool
}

func newWorld(t *testing.T) *world {
	st, err := state.New(state.Config{Kinds: []*state.KindInfo{&state.Services.KindInfo, &state.Pods.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	st.MarkSynced()
	w := &world{t: t, state: st, graph: view.NewGraph(st)}
	w.plans = view.NewSet(w.graph, "plans", func(r *view.Reader, key reconcile.Key, _ *plan) plan {
		service, ok := state.Get(r.Reader, state.Services, key.Namespace, key.Name)
		if !ok || service.Labels["is"] == service.Labels["want"] {
			return plan{}
		}
		return plan{service.Labels["want"], service.ResourceVersion}
	}, func(a, b plan) bool { return a == b })
	return w
}

// put stores a Service. The lock is held.
func (w *world) put(name, is, want string) string {
	w.version++
	version := strconv.Itoa(w.version)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version, Labels: map[string]string{"is": is, "want": want}}}
	if w.hold {
		w.lost = func() { state.Put(w.state, state.Services, service) }
	} else {
		state.Put(w.state, state.Services, service)
	}
	return version
}

func (w *world) want(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(name, "", value)
}

func (w *world) write(_ context.Context, key reconcile.Key, p plan) (reconcile.Written, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, p.value)
	if w.refuse {
		return nil, errors.New("refused")
	}
	return reconcile.Written{key.Name: w.put(key.Name, p.value, p.value)}, nil
}

// run runs a loop in a bubble and returns what ends it.
func (w *world) run(change func(*reconcile.Config[plan])) (stop func()) {
	config := reconcile.Config[plan]{
		State: w.state, Plans: w.plans, Kinds: []*state.KindInfo{&state.Services.KindInfo}, Write: w.write, Workers: 2,
		Backoff: func() workqueue.TypedRateLimiter[reconcile.Key] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Key](time.Second, time.Minute)
		},
		Left: func(int) {},
	}
	change(&config)
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.graph.Run(ctx) })
	group.Go(func() {
		if err := reconcile.New(config).Lead(ctx); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
	return func() {
		cancel()
		group.Wait()
		if held := w.plans.Held(); held != 0 {
			w.t.Errorf("%d views are held after the end", held)
		}
	}
}

func (w *world) wrote(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.writes) != len(want) {
		w.t.Fatalf("written %q, want %q", w.writes, want)
	}
	for i := range want {
		if w.writes[i] != want[i] {
			w.t.Fatalf("written %q, want %q", w.writes, want)
		}
	}
}

// What was there before is written, then what changes, and
// nothing while nothing does.
func TestWritesWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.want("a", "1")
		defer w.run(func(*reconcile.Config[plan]) {})()
		w.wrote("1")
		w.want("a", "2")
		w.wrote("1", "2")
		w.want("b", "3")
		w.wrote("1", "2", "3")
		time.Sleep(time.Minute)
		w.wrote("1", "2", "3")
		if held := w.plans.Held(); held != 2 {
			t.Errorf("%d plans are held, want those of two objects", held)
		}
		state.Remove(w.state, state.Services, "ns", "a")
		synctest.Wait()
		if held := w.plans.Held(); held != 1 {
			t.Errorf("%d plans are held after one of two objects went", held)
		}
	})
}

// Until the State shows what was written, plans that do not know of it are not
// carried out: with a patience for its length, else for ever.
func TestOwnWritesAreWaitedFor(t *testing.T) {
	for name, row := range map[string]struct {
		patience time.Duration
		again    []string
	}{"for ever": {0, []string{"1"}}, "for a second": {time.Second, []string{"1", "2"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.want("a", "1")
				w.hold = true
				defer w.run(func(c *reconcile.Config[plan]) { c.Patience = row.patience })()
				w.wrote("1")
				// It changes again, as of the version on which the write was based.
				stale := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "other", ResourceVersion: "1", Labels: map[string]string{"want": "2"}}}
				state.Put(w.state, state.Services, stale)
				time.Sleep(time.Second - time.Millisecond)
				w.wrote("1")
				time.Sleep(time.Minute)
				w.wrote(row.again...)
				w.hold = false
				w.lost() // what was written last comes at last
				w.want("a", "3")
				w.wrote(append(row.again, "3")...)
			})
		})
	}
}

// A write that changes nothing is not repeated for the same plan.
func TestPlanIsCarriedOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.want("a", "1")
		writes := 0
		defer w.run(func(c *reconcile.Config[plan]) {
			c.Patience = time.Second
			c.Write = func(context.Context, reconcile.Key, plan) (reconcile.Written, error) {
				writes++
				return reconcile.Written{"a": "1"}, nil
			}
		})()
		for range 3 {
			time.Sleep(time.Minute)
			w.graph.Flush()
			synctest.Wait()
		}
		if writes != 1 {
			t.Errorf("%d writes, want 1", writes)
		}
	})
}

// What failed is tried again, later and later, until it is given up; a new plan
// is tried anew.
func TestFailuresAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.want("a", "1")
		w.refuse = true
		var gaveUp []reconcile.Key
		defer w.run(func(c *reconcile.Config[plan]) {
			c.Retries = 2
			c.GaveUp = func(key reconcile.Key) { gaveUp = append(gaveUp, key) }
		})()
		w.wrote("1")
		time.Sleep(time.Second)
		w.wrote("1", "1")
		time.Sleep(2 * time.Second)
		w.wrote("1", "1", "1")
		if len(gaveUp) != 1 || gaveUp[0].String() != "service ns/a" {
			t.Errorf("given up are %v", gaveUp)
		}
		time.Sleep(time.Minute)
		w.wrote("1", "1", "1")
		w.want("a", "2")
		time.Sleep(500 * time.Millisecond)
		w.mu.Lock()
		w.refuse = false
		w.mu.Unlock()
		time.Sleep(time.Second)
		w.wrote("1", "1", "1", "2", "2")
	})
}

// What cannot be written is told of as a problem of the object, until it is
// written, needs no writing, or is gone. What would be refused again is not
// tried again.
func TestFailuresAreProblems(t *testing.T) {
	for name, mend := range map[string]func(*world){
		"written": func(w *world) {
			w.refuse = false
			w.put("a", "", "2")
		},
		"needless": func(w *world) { w.put("a", "1", "1") },
		"gone":     func(w *world) { state.Remove(w.state, state.Services, "ns", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.want("a", "1")
				w.refuse = true
				stop := w.run(func(c *reconcile.Config[plan]) {
					c.Source = "test"
					c.Write = func(ctx context.Context, key reconcile.Key, p plan) (reconcile.Written, error) {
						written, err := w.write(ctx, key, p)
						if err != nil {
							err = &reconcile.Refused{Err: err}
						}
						return written, err
					}
				})
				defer stop()
				time.Sleep(time.Minute)
				w.wrote("1")
				told := w.state.Problems().List()
				if len(told) != 1 || told[0].Object.String() != "Service ns/a" || told[0].Source != "test" || told[0].Message != "not written by test: refused" {
					t.Fatalf("told: %+v", told)
				}
				w.mu.Lock()
				mend(w)
				w.mu.Unlock()
				synctest.Wait()
				if told := w.state.Problems().List(); len(told) != 0 {
					t.Errorf("still told: %+v", told)
				}
			})
		})
	}
}

// A panic in a write is a problem of that object; others are written.
func TestPanicIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.want("a", "1")
		w.want("b", "2")
		defer w.run(func(c *reconcile.Config[plan]) {
			c.Write = func(ctx context.Context, key reconcile.Key, p plan) (reconcile.Written, error) {
				if p.value == "1" {
					panic("no such thing")
				}
				return w.write(ctx, key, p)
			}
		})()
		w.wrote("2")
		if told := w.state.Problems().List(); len(told) != 1 || told[0].Object.Name != "a" || !strings.Contains(told[0].Message, "no such thing") {
			t.Errorf("told: %+v", told)
		}
		w.want("a", "3")
		w.wrote("2", "3")
	})
}

// Changes that follow closely are one write.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run(func(c *reconcile.Config[plan]) { c.Gather = 10 * time.Millisecond })()
		for _, value := range []string{"1", "2", "3"} {
			w.want("a", value)
			time.Sleep(3 * time.Millisecond)
			w.wrote()
		}
		time.Sleep(time.Millisecond)
		w.wrote("3")
	})
}

// At the end of a term those that waited are counted, and not written.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.want("a", "1")
		w.want("b", "2")
		w.want("c", "3")
		w.graph.Flush() // or a change planned once more is left too
		left, writes := 0, 0
		entered := make(chan struct{})
		stop := w.run(func(c *reconcile.Config[plan]) {
			c.Workers = 1
			c.Left = func(n int) { left += n }
			c.Write = func(ctx context.Context, _ reconcile.Key, _ plan) (reconcile.Written, error) {
				writes++
				close(entered)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		<-entered
		stop()
		if left != 2 || writes != 1 {
			t.Errorf("%d left and %d written, want 2 and 1", left, writes)
		}
	})
}

// Of two loops that want one Lease the holder writes, then the other.
func TestWritesUnderALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.want("a", "1")
		client := fake.NewClientset().CoordinationV1()
		var group sync.WaitGroup
		ctx, end := context.WithCancel(t.Context())
		defer group.Wait()
		defer end()
		group.Go(func() { w.graph.Run(ctx) })
		start := func(identity string) (stop func()) {
			ctx, cancel := context.WithCancel(ctx)
			loop := reconcile.New(reconcile.Config[plan]{
				State: w.state, Plans: w.plans, Kinds: []*state.KindInfo{&state.Services.KindInfo}, Workers: 1,
				Write: func(ctx context.Context, key reconcile.Key, p plan) (reconcile.Written, error) {
					p.value += identity
					return w.write(ctx, key, p)
				},
				Lease:   lease.Config{Client: client, Namespace: "linkerd", Name: "write", Identity: identity, Log: slog.New(slog.DiscardHandler)},
				Backoff: workqueue.DefaultTypedControllerRateLimiter[reconcile.Key],
				Left:    func(int) {},
			})
			group.Go(func() {
				if err := loop.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			return cancel
		}
		stopFirst := start("x")
		w.wrote("1x")
		start("y")
		time.Sleep(5 * time.Second)
		w.want("b", "2")
		w.wrote("1x", "2x")
		stopFirst()
		time.Sleep(5 * time.Second)
		w.want("c", "3")
		w.wrote("1x", "2x", "3y")
	})
}
