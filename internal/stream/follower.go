package stream

import (
	"context"
	"log/slog"
	"reflect"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Config sets up a Follower.
type Config struct {
	// Stopping ends all streams when it is closed; nil means never.
	Stopping <-chan struct{}
	// ClientEndsOK counts a stream that ends through its client as OK, as
	// Linkerd's destination does. Its policy controller counts such a stream by
	// what happened, mostly as CANCELLED.
	ClientEndsOK bool
	// Log gets a line when a stream begins and one when it ends, at debug level;
	// nil is silence.
	Log *slog.Logger
}

// Follower serves the streams of one service. There is one goroutine for each
// stream, its caller's, and no queue: a client that does not read holds up
// nobody, and is brought up to date in one step once it does.
type Follower struct {
	config Config
	// last is the id of the newest stream.
	last atomic.Uint64
}

// NewFollower returns a Follower without streams.
func NewFollower(config Config) *Follower {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Follower{config: config}
}

// Call says who follows what, for people.
type Call struct {
	// Client is the workload of the client's token, "" if it has told none.
	Client string
	// Target is what it asked for, as it was written.
	Target string
}

// ending is why a stream ends.
type ending string

const (
	// stopping: the server stops, and clients come back to another one.
	stopping ending = "the server stops"
	// gone: what the stream is about is no more.
	gone ending = "what it follows is gone"
	// left: the client has cancelled, or its connection or its time is over.
	left ending = "the client left"
	// unsent: a message cannot be sent, nearly always since the client left.
	unsent ending = "a message cannot be sent"
	// faulty: there never was anything to send, through a fault of ours.
	faulty ending = "there is no answer"
)

// status is the end that the client is told, and that is counted (D section 0,
// D89, P313). Err is what went wrong, if something did.
func (f *Follower) status(why ending, err error) error {
	switch why {
	case faulty:
		return status.Error(codes.Unavailable, err.Error())
	case left:
		if !f.config.ClientEndsOK {
			return status.FromContextError(err).Err()
		}
	case unsent:
		if !f.config.ClientEndsOK {
			return err
		}
	}
	return nil
}

// Unavailable is the error of a call, other than a stream, that has no answer
// through a fault of ours.
func Unavailable(fault *problems.Fault) error {
	return status.Error(codes.Unavailable, fault.Error())
}

// Follow sends what source has until the stream ends, and returns the error
// that a handler is to return. A client that has been sent something keeps it
// while source fails; one that has not is told to come back.
//
// Thousands of goroutines stand in here, so what they do not need while they
// wait is in functions of its own, off their stacks.
func (f *Follower) Follow(stream grpc.ServerStream, call Call, source Source) error {
	id := f.last.Add(1)
	logged := f.config.Log.Enabled(stream.Context(), slog.LevelDebug)
	if logged {
		f.logBegin(stream.Context(), id, call)
	}
	sent, why, err := f.follow(stream, source)
	end := f.status(why, err)
	if logged {
		f.logEnd(id, sent, why, end)
	}
	return end
}

func (f *Follower) logBegin(ctx context.Context, id uint64, call Call) {
	method, _ := grpc.Method(ctx)
	address := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		address = p.Addr.String()
	}
	f.config.Log.Debug("stream begins", "stream", id, "method", method, "peer", address,
		"client", printable.Short(call.Client), "target", printable.Short(call.Target))
}

func (f *Follower) logEnd(id uint64, sent int, why ending, end error) {
	f.config.Log.Debug("stream ends", "stream", id, "messages", sent, "why", string(why), "code", status.Code(end).String())
}

func (f *Follower) follow(stream grpc.ServerStream, source Source) (sent int, why ending, err error) {
	ctx := stream.Context()
	for {
		step := source.Next()
		for _, m := range step.Messages {
			if err := stream.SendMsg(m); err != nil {
				return sent, unsent, err
			}
			sent++
		}
		switch {
		case step.Gone:
			return sent, gone, nil
		case step.Fault != nil && sent == 0:
			return sent, faulty, step.Fault
		case len(step.more) > 0:
			if why := f.waitForMany(ctx, &step); why != "" {
				return sent, why, ctx.Err()
			}
			continue
		}
		select {
		case <-step.wake[0]:
		case <-step.wake[1]:
		case <-step.wake[2]:
		case <-f.config.Stopping:
			return sent, stopping, nil
		case <-ctx.Done():
			return sent, left, ctx.Err()
		}
	}
}

// waitForMany waits for the few streams that do so for more than three things.
// It returns why the stream is to end, "" if there is more to tell.
func (f *Follower) waitForMany(ctx context.Context, step *Step) ending {
	channels := append([]<-chan struct{}{f.config.Stopping, ctx.Done()}, step.wake[:]...)
	channels = append(channels, step.more...)
	cases := make([]reflect.SelectCase, len(channels))
	for i, c := range channels {
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
	}
	switch chosen, _, _ := reflect.Select(cases); chosen {
	case 0:
		return stopping
	case 1:
		return left
	}
	return ""
}
