package lifecycle

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal records what happened, in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

func (j *journal) part(name string, after ...string) Part {
	return Part{Name: name, After: after, Run: func(ctx context.Context, ready func()) error {
		j.add("+" + name)
		ready()
		<-ctx.Done()
		j.add("-" + name)
		return context.Cause(ctx)
	}}
}

// A store stops last, after all that use it.
func TestOrder(t *testing.T) {
	rulebook.Covers(t, "B51")
	var j journal
	s, err := New(Config{}, j.part("grpc", "state"), j.part("state", "api"), j.part("api", "etcd"), j.part("etcd"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	for _, status := range s.Status() {
		if status.State != Running {
			t.Errorf("%s is %s", status.Name, status.State)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := []string{"+etcd", "+api", "+state", "+grpc", "-grpc", "-state", "-api", "-etcd"}
	if diff := cmp.Diff(want, j.all()); diff != "" {
		t.Error(diff)
	}
}

func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		run  func(ctx context.Context, ready func()) error
		task bool
		want string
	}{
		{name: "error before ready", run: func(context.Context, func()) error { return boom }, want: "bad: boom"},
		{name: "error after ready", run: func(_ context.Context, ready func()) error { ready(); return boom }, want: "bad: boom"},
		{name: "panic", run: func(context.Context, func()) error { panic("ouch") }, want: "bad: panic: ouch"},
		{name: "goexit", run: func(context.Context, func()) error { runtime.Goexit(); return nil }, want: "bad: its goroutine was ended"},
		{name: "ends by itself", run: func(_ context.Context, ready func()) error { ready(); return nil }, want: "bad: ended by itself"},
		{name: "ends before ready", run: func(context.Context, func()) error { return nil }, want: "bad: ended before it was ready"},
		{name: "task fails", task: true, run: func(context.Context, func()) error { return boom }, want: "bad: boom"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j journal
			s, err := New(Config{StopTimeout: time.Minute},
				j.part("base"), Part{Name: "bad", After: []string{"base"}, Task: tc.task, Run: tc.run}, j.part("never", "bad", "last"), Part{Name: "last", Run: func(ctx context.Context, _ func()) error {
					<-ctx.Done()
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Run(t.Context())
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			var part *PartError
			if !errors.As(err, &part) || part.Part != "bad" {
				t.Errorf("the error names no part: %v", err)
			}
			if diff := cmp.Diff([]string{"+base", "-base"}, j.all()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTaskIsReadyWhenDone(t *testing.T) {
	var j journal
	s, err := New(Config{}, j.part("server", "task"), Part{Name: "task", Task: true, Run: func(context.Context, func()) error {
		j.add("task")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"task", "+server", "-server"}, j.all()); diff != "" {
		t.Error(diff)
	}
}

// A failure that is noticed outside of a part's own goroutine stops all, too.
func TestFail(t *testing.T) {
	var j journal
	s, err := New(Config{}, j.part("etcd"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Run(t.Context()) }()
	<-s.Ready()
	if !s.IsReady() {
		t.Error("not ready before the failure")
	}
	s.Fail("etcd", errors.New("disk full"))
	if s.IsReady() {
		t.Error("ready after the failure")
	}
	s.Fail("etcd", errors.New("second"))
	if err := <-done; err == nil || err.Error() != "etcd: disk full" {
		t.Errorf("got %v", err)
	}
}

func TestStopTimeout(t *testing.T) {
	release := make(chan struct{})
	ended := make(chan struct{})
	s, err := New(Config{StopTimeout: time.Millisecond}, Part{Name: "stuck", Run: func(_ context.Context, ready func()) error {
		defer close(ended)
		ready()
		<-release
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.Run(ctx)
	var timeout *StopTimeoutError
	select {
	case <-s.Ready():
		if !errors.As(err, &timeout) || !slices.Equal(timeout.Parts, []string{"stuck"}) {
			t.Errorf("got %v", err)
		}
		close(release)
		<-ended
	default:
		if err != nil {
			t.Errorf("a part that never started made %v", err)
		}
	}
}

// Parts that cannot stop without what has failed do not hold up the end, and
// the failure is what Run returns.
func TestFailureTimeout(t *testing.T) {
	release, ended := make(chan struct{}), make(chan struct{})
	s, err := New(Config{StopTimeout: time.Hour, FailureTimeout: time.Millisecond},
		Part{Name: "store", Run: func(_ context.Context, ready func()) error {
			ready()
			return errors.New("disk full")
		}},
		Part{Name: "user", Run: func(context.Context, func()) error {
			defer close(ended)
			<-release
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || err.Error() != "store: disk full" {
		t.Errorf("got %v", err)
	}
	close(release)
	<-ended
}

// A part that takes long is told of once, with what it waits for.
func TestSlow(t *testing.T) {
	rulebook.Covers(t, "C14")
	synctest.Test(t, func(t *testing.T) {
		var slow []Status
		release := make(chan struct{})
		s, err := New(Config{OnSlow: func(status Status) { slow = append(slow, status) }},
			Part{Name: "quick", Run: func(ctx context.Context, ready func()) error { ready(); <-ctx.Done(); return nil }},
			Part{Name: "api", Waits: func() string { return "network is unreachable" }, Run: func(ctx context.Context, ready func()) error {
				<-release
				ready()
				<-ctx.Done()
				return nil
			}},
			Part{Name: "later", After: []string{"api"}, Run: func(ctx context.Context, ready func()) error { ready(); <-ctx.Done(); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []Status{{Name: "api", State: Starting, Start: 5 * time.Second, WaitsFor: "network is unreachable"}}
		if diff := cmp.Diff(want, slow); diff != "" {
			t.Error(diff)
		}
		if got := s.Status()[1]; got.WaitsFor != "network is unreachable" {
			t.Errorf("status: %+v", got)
		}
		close(release)
		<-s.Ready()
		if got := s.Status()[1]; got.WaitsFor != "" {
			t.Errorf("status of a part that is ready: %+v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWrongParts(t *testing.T) {
	run := func(context.Context, func()) error { return nil }
	for _, tc := range []struct {
		name  string
		parts []Part
		want  string
	}{
		{"no name", []Part{{Run: run}}, "needs a name"},
		{"no function", []Part{{Name: "a"}}, "needs a name and a function"},
		{"same name", []Part{{Name: "a", Run: run}, {Name: "a", Run: run}}, `two parts are called "a"`},
		{"missing", []Part{{Name: "a", After: []string{"b"}, Run: run}}, `"a" waits for "b"`},
		{"cycle", []Part{{Name: "a", After: []string{"b"}, Run: run}, {Name: "b", After: []string{"a"}, Run: run}}, "[a b a]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := New(Config{}, tc.parts...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to contain %q", err, tc.want)
			}
		})
	}
}
