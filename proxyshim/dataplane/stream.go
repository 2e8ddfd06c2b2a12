package dataplane

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The waits before a stream is opened again.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// stream is one question to the control plane, whose answers are followed.
type stream[M any] struct {
	name string
	log  *slog.Logger
	open func(context.Context) (grpc.ServerStreamingClient[M], error)
	// each gets every message; first says that it is the first of its call.
	each func(m *M, first bool)
	// refused gets the code of a call that has ended with an error, and says
	// whether to leave it at that.
	refused func(codes.Code) bool
}

// follow opens the stream again and again until ctx ends, or it is refused.
func (s stream[M]) follow(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		call, err := s.open(ctx)
		for first := true; err == nil; first = false {
			var m *M
			if m, err = call.Recv(); err == nil {
				backoff = minBackoff
				s.each(m, first)
			}
		}
		if ctx.Err() != nil {
			return
		}
		// What ends without an error has status OK: unknown to FromError.
		if code := status.Code(err); code != codes.Unknown && s.refused(code) {
			s.log.Debug("stream refused", "stream", s.name, "error", err)
			return
		}
		s.log.Debug("stream ended", "stream", s.name, "error", err)
		select {
		case <-time.After(backoff + rand.N(backoff/10)):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// terminal are codes that no later call will change.
func terminal(c codes.Code) bool { return c == codes.InvalidArgument || c == codes.FailedPrecondition }
