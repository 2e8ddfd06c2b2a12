package stream

import (
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Source holds the views that a client follows, and what it has been sent of
// them. It is for one stream.
type Source interface {
	// Next returns what the client is to be told since the last call.
	Next() Step
}

// Step is what a source has for its client now.
type Step struct {
	// Messages are to be sent, in this order.
	Messages []*grpcserver.Encoded
	// Gone ends the stream: what it is about is no more.
	Gone bool
	// Fault is why there is nothing to send.
	Fault *problems.Fault

	// wake has room for what nearly every stream waits for, without an
	// allocation; the others have more.
	wake [3]<-chan struct{}
	more []<-chan struct{}
}

// Send adds messages.
func (s *Step) Send(messages ...*grpcserver.Encoded) { s.Messages = append(s.Messages, messages...) }

// WakeOn makes the stream ask for the next step when c is closed; nil never is.
func (s *Step) WakeOn(c <-chan struct{}) {
	if c == nil {
		return
	}
	for i := range s.wake {
		if s.wake[i] == nil {
			s.wake[i] = c
			return
		}
	}
	s.more = append(s.more, c)
}
