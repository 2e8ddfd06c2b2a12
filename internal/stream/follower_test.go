package stream_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

type message = wrapperspb.StringValue

// script is a source that says one line after the other, each once it is woken.
type script struct {
	steps []func() stream.Step
	asked int
}

func (s *script) Next() stream.Step {
	step := s.steps[min(s.asked, len(s.steps)-1)]()
	s.asked++
	return step
}

// say is a step that sends texts and waits for the channels.
func say(t *testing.T, texts []string, wake ...<-chan struct{}) func() stream.Step {
	return func() (step stream.Step) {
		for _, text := range texts {
			m, err := grpcserver.Encode(wrapperspb.String(text))
			if err != nil {
				t.Error(err)
			}
			step.Send(m)
		}
		for _, c := range wake {
			step.WakeOn(c)
		}
		return step
	}
}

func received(s *streams.Stream[*message]) string {
	var texts []string
	for _, m := range s.Take() {
		texts = append(texts, m.Value)
	}
	return strings.Join(texts, " ")
}

// Every way for a stream to end, with the code for each kind of service, and
// what the log says of it.
func TestEnds(t *testing.T) {
	rulebook.Covers(t, "D89, P313")
	fault := &problems.Fault{Value: "no such colour"}
	for _, test := range []struct {
		name   string
		last   stream.Step
		does   func(s *streams.Stream[*message], stop chan struct{})
		silent bool
		// destination and policy are the ends of their streams.
		destination, policy, why string
	}{
		{
			name: "the server stops", does: func(_ *streams.Stream[*message], stop chan struct{}) { close(stop) },
			destination: "OK", policy: "OK", why: `"the server stops"`,
		},
		{
			name: "the client leaves", does: func(s *streams.Stream[*message], _ chan struct{}) { s.Cancel() },
			destination: "OK", policy: "Canceled context canceled", why: `"the client left"`,
		},
		{name: "gone", last: stream.Step{Gone: true}, destination: "OK", policy: "OK", why: `"what it follows is gone"`},
		{
			name: "never an answer", last: stream.Step{Fault: fault}, silent: true,
			destination: "Unavailable " + fault.Error(), policy: "Unavailable " + fault.Error(), why: `"there is no answer"`,
		},
		{
			name: "no answer any more", last: stream.Step{Fault: fault}, does: func(_ *streams.Stream[*message], stop chan struct{}) { close(stop) },
			destination: "OK", policy: "OK", why: `"the server stops"`,
		},
	} {
		for service, want := range map[string]string{"destination": test.destination, "policy": test.policy} {
			t.Run(test.name+" "+service, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log strings.Builder
					stop := make(chan struct{})
					f := stream.NewFollower(stream.Config{
						Stopping: stop, ClientEndsOK: service == "destination",
						Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
					})
					again := make(chan struct{})
					source := &script{steps: []func() stream.Step{say(t, []string{"a", "b"}, again), func() stream.Step { return test.last }}}
					messages := 2
					if test.silent {
						source.steps, messages = source.steps[1:], 0
					}
					s := streams.Open(t, func(s *streams.Stream[*message]) error {
						return f.Follow(s, stream.Call{Client: "ns/pod", Target: "web:80\n"}, source)
					})
					synctest.Wait()
					if !test.silent {
						if got := received(s); got != "a b" {
							t.Errorf("received %q", got)
						}
						close(again)
						synctest.Wait()
					}
					if test.does != nil {
						if end := s.End(); end != "" {
							t.Errorf("has ended with %q too early", end)
						}
						test.does(s, stop)
						synctest.Wait()
					}
					if end := s.End(); end != want {
						t.Errorf("ends with %q, want %q", end, want)
					}
					code, _, _ := strings.Cut(want, " ")
					for _, line := range []string{
						`"stream begins" stream=1 method="" peer="" client=ns/pod target=web:80\n`,
						fmt.Sprintf(`"stream ends" stream=1 messages=%d why=%s code=%s`, messages, test.why, code),
					} {
						if !strings.Contains(log.String(), line) {
							t.Errorf("no %s in\n%s", line, log.String())
						}
					}
				})
			})
		}
	}
}

// broken is a stream whose client cannot be sent anything.
type broken struct {
	*streams.Stream[*message]
}

func (broken) SendMsg(any) error { return errors.New("broken pipe") }

// A message that cannot be sent ends the stream, and counts as Linkerd counts it.
func TestUnsent(t *testing.T) {
	for _, ok := range []bool{true, false} {
		f := stream.NewFollower(stream.Config{ClientEndsOK: ok})
		err := f.Follow(broken{streams.New[*message](t.Context())}, stream.Call{}, &script{steps: []func() stream.Step{say(t, []string{"a"})}})
		if (err == nil) != ok {
			t.Errorf("ends with %v, where ends of clients are OK: %v", err, ok)
		}
	}
}

// Each of the reasons that a step gives wakes the stream, few or many.
func TestWake(t *testing.T) {
	for _, count := range []int{1, 3, 4, 9} {
		for woken := range count {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				f := stream.NewFollower(stream.Config{Stopping: stop})
				reasons := make([]chan struct{}, count)
				wake := []<-chan struct{}{nil}
				for i := range reasons {
					reasons[i] = make(chan struct{})
					wake = append(wake, reasons[i])
				}
				source := &script{steps: []func() stream.Step{say(t, []string{"first"}, wake...), say(t, []string{"second"}), say(t, nil)}}
				s := streams.Open(t, func(s *streams.Stream[*message]) error { return f.Follow(s, stream.Call{}, source) })
				synctest.Wait()
				if got := received(s); got != "first" {
					t.Errorf("received %q", got)
				}
				close(reasons[woken])
				synctest.Wait()
				if got := received(s); got != "second" || source.asked != 2 {
					t.Errorf("%d of %d: received %q, asked %d times", woken, count, got, source.asked)
				}
				close(stop)
			})
		}
	}
	t.Run("a stream with many reasons ends", func(t *testing.T) {
		for _, stops := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				never := make(chan struct{})
				f := stream.NewFollower(stream.Config{Stopping: stop})
				s := streams.Open(t, func(s *streams.Stream[*message]) error {
					return f.Follow(s, stream.Call{}, &script{steps: []func() stream.Step{say(t, nil, never, never, never, never)}})
				})
				synctest.Wait()
				want := "OK"
				if stops {
					close(stop)
				} else {
					s.Cancel()
					want = "Canceled context canceled"
				}
				synctest.Wait()
				if end := s.End(); end != want {
					t.Errorf("ends with %q, want %q", end, want)
				}
			})
		}
	})
}
