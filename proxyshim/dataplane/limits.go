package dataplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// limits bound the time of one try of a request. When one is exceeded the
// context ends with the answer as its cause.
type limits struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration

	mu     sync.Mutex
	timers []*time.Timer
	idling *time.Timer
	ended  bool
}

func newLimits(ctx context.Context) *limits {
	l := &limits{}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l
}

// after ends the context with the answer when d has passed; zero is never.
func (l *limits) after(d time.Duration, answer *verdict.Answer) *time.Timer {
	if d <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	t := time.AfterFunc(d, func() { l.cancel(answer) })
	l.timers = append(l.timers, t)
	return t
}

// active notes that something has passed in either direction.
func (l *limits) active() {
	if l.idling == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.idling.Reset(l.idle)
	}
}

// stop lifts the limits.
func (l *limits) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, t := range l.timers {
		t.Stop()
	}
}

// end is called when what is bounded is over.
func (l *limits) end() {
	l.stop()
	l.cancel(nil)
}

// replay is the body of a request, which can be read again while it is short.
type replay struct {
	mu   sync.Mutex // held while source is read
	from io.Reader
	max  int
	kept []byte
	// lost says that more than max was read.
	lost bool
	err  error
}

// again says whether the body can be read from its begin.
func (r *replay) again() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lost
}

// replayed is the body in one try. Its end and each read are told of.
type replayed struct {
	*replay
	at     int
	closed atomic.Bool
	active func()
	ended  func()
	once   sync.Once
}

var (
	errReadElsewhere = errors.New("the request is sent again")
	errNotKept       = errors.New("the request is too long to be sent again")
)

func (r *replayed) Read(p []byte) (int, error) {
	r.mu.Lock()
	n, err := r.next(p)
	r.mu.Unlock()
	if n > 0 {
		r.active()
	}
	if err != nil {
		r.once.Do(r.ended)
	}
	return n, err
}

func (r *replayed) next(p []byte) (int, error) {
	if r.closed.Load() {
		return 0, errReadElsewhere
	}
	if r.at < len(r.kept) {
		n := copy(p, r.kept[r.at:])
		r.at += n
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.from.Read(p)
	r.err = err
	if !r.lost && len(r.kept)+n <= r.max {
		r.kept = append(r.kept, p[:n]...)
		r.at += n
	} else if n > 0 {
		r.lost, r.kept, r.at = true, nil, 0
	}
	return n, err
}

// Close ends this try's reading; the server closes the body itself.
func (r *replayed) Close() error {
	r.closed.Store(true)
	return nil
}

// response is the body of an answer that is passed on.
type response struct {
	io.ReadCloser
	res    *http.Response
	limits *limits
	grpc   bool
	// ended gets the error with which the body ended, nil at its regular end.
	ended func(error)
	once  sync.Once
}

func (r *response) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.limits.active()
	}
	if err == nil {
		return n, nil
	}
	failure := err
	if err == io.EOF {
		failure = nil
	}
	var answer *verdict.Answer
	if failure != nil && r.grpc && errors.As(context.Cause(r.limits.ctx), &answer) {
		// Clients of gRPC look for the reason in the trailer.
		r.res.Trailer = http.Header{"Grpc-Status": {grpcStatus(answer.Code)}, "Grpc-Message": {answer.Message}}
		err = io.EOF
	}
	r.end(failure)
	return n, err
}

func (r *response) end(err error) {
	r.once.Do(func() {
		r.ended(err)
		r.limits.end()
	})
}

// Close ends also what was not read.
func (r *response) Close() error {
	r.end(context.Canceled)
	return r.ReadCloser.Close()
}

// upgraded is the body of an answer that is a connection from then on.
type upgraded struct {
	*response
	io.Writer
}
