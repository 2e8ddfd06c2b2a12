// Package streams calls the streaming methods of a server without a connection.
package streams

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
)

// Stream is one call, as its server sees it and as its client does.
type Stream[M proto.Message] struct {
	grpc.ServerStream
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	messages []M
	err      error
	ended    bool
}

// New returns the stream of a call that lasts as long as ctx.
func New[M proto.Message](ctx context.Context) *Stream[M] {
	s := &Stream[M]{}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Open starts a call. It ends with the test, if not before.
func Open[M proto.Message](t testing.TB, call func(*Stream[M]) error) *Stream[M] {
	s := New[M](context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.end(call(s))
	}()
	t.Cleanup(func() { s.cancel(); <-done })
	return s
}

// Answered is a call that has ended after one message, or with an error.
func Answered[M proto.Message](answer M, err error) *Stream[M] {
	s := New[M](context.Background())
	if err == nil {
		s.messages = []M{answer}
	}
	s.end(err)
	s.cancel()
	return s
}

func (s *Stream[M]) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.ended = err, true
}

// Context is the server's side of the call.
func (s *Stream[M]) Context() context.Context { return s.ctx }

// Send is SendMsg.
func (s *Stream[M]) Send(m M) error { return s.SendMsg(m) }

// SendMsg receives what the server sends, an encoded message or one to encode.
func (s *Stream[M]) SendMsg(m any) error {
	encoded, ok := m.(*grpcserver.Encoded)
	if !ok {
		var err error
		if encoded, err = grpcserver.Encode(m.(proto.Message)); err != nil {
			return err
		}
	}
	var kind M
	message := kind.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(encoded.Bytes(), message); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, message)
	return status.FromContextError(s.ctx.Err()).Err()
}

// Cancel ends the call as a client does.
func (s *Stream[M]) Cancel() { s.cancel() }

// Take returns what was received since the last call.
func (s *Stream[M]) Take() []M {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.messages
	s.messages = nil
	return taken
}

// Messages is Take for those who take messages of any type.
func (s *Stream[M]) Messages() []proto.Message {
	var messages []proto.Message
	for _, m := range s.Take() {
		messages = append(messages, m)
	}
	return messages
}

// Status is what the call has ended with, if it has.
func (s *Stream[M]) Status() (*status.Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.Convert(s.err), s.ended
}

// End is the code and the message that the call has ended with, "" while it is open.
func (s *Stream[M]) End() string {
	end, ended := s.Status()
	if !ended {
		return ""
	}
	return strings.TrimSpace(end.Code().String() + " " + end.Message())
}
