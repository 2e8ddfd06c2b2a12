package lifecycle

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// However a goroutine of a group ends, the others are told, and the error says
// which it was. With errgroup a panic would end the process.
func TestGroup(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name     string
		f        func() error
		want     string
		panicked bool
	}{
		{name: "error", f: func() error { return boom }, want: "boom"},
		{name: "panic", f: func() error { panic("ouch") }, want: "reader of pods: panic: ouch", panicked: true},
		//lint:ignore SA5000 the panic is what the test is about
		{name: "nil map", f: func() error { var m map[string]int; m["a"] = 1; return nil }, want: "reader of pods: panic: assignment to entry in nil map", panicked: true},
		{name: "goexit", f: func() error { runtime.Goexit(); return nil }, want: "reader of pods: panic: its goroutine was ended", panicked: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			group, ctx := NewGroup(t.Context())
			group.Go("other", func() error { <-ctx.Done(); return context.Cause(ctx) })
			group.Go("reader of pods", row.f)
			err := group.Wait()
			if err == nil || err.Error() != row.want || Panicked(err) != row.panicked {
				t.Errorf("got %v, panicked %v; want %s", err, Panicked(err), row.want)
			}
			var panicked *PanicError
			if row.name == "panic" && (!errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "TestGroup")) {
				t.Errorf("the stack does not show where it was")
			}
		})
	}
}

// Go alone tells how f ended, and once only.
func TestGo(t *testing.T) {
	boom := errors.New("boom")
	for want, f := range map[string]func() error{
		"boom":                                   func() error { return boom },
		"reader: panic: ouch":                    func() error { panic("ouch") },
		"reader: panic: its goroutine was ended": func() error { runtime.Goexit(); return nil },
	} {
		ended := Go("reader", f)
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err, open := <-ended; err != nil || open {
			t.Errorf("after that: %v, open %v", err, open)
		}
	}
}

func TestGroupWithoutErrors(t *testing.T) {
	group, ctx := NewGroup(t.Context())
	group.Go("a", func() error { return nil })
	if err := group.Wait(); err != nil || ctx.Err() == nil {
		t.Errorf("error %v; the context ended: %v", err, ctx.Err())
	}
	var zero Group
	zero.Go("a", func() error { panic(1) })
	if !Panicked(zero.Wait()) {
		t.Error("the zero group loses a panic")
	}
}

func TestGroupLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group Group
		group.SetLimit(2)
		release := make(chan struct{})
		started := make(chan struct{}, 3)
		all := make(chan struct{})
		go func() {
			defer close(all)
			for range 3 {
				group.Go("a", func() error { started <- struct{}{}; <-release; return nil })
			}
		}()
		synctest.Wait()
		if len(started) != 2 {
			t.Errorf("%d run at a time", len(started))
		}
		close(release)
		<-all
		if err := group.Wait(); err != nil || len(started) != 3 {
			t.Errorf("%v, %d ran", err, len(started))
		}
	})
}
