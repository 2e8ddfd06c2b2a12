package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// State is where a part is in its life.
type State string

// The states of a part, in the order in which it passes through them.
const (
	Waiting  State = "waiting"
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
	Ended    State = "ended"
)

// Status is what is known about a part.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Start is the time from the part's start to its readiness.
	Start time.Duration `json:"startNanoseconds"`
	// Ready is the time from the start of the supervisor to the part's readiness.
	Ready time.Duration `json:"readyNanoseconds"`
	Error string        `json:"error,omitempty"`
	// WaitsFor is what a part that is starting waits for, as far as it says so.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// Config sets up a Supervisor.
type Config struct {
	Log *slog.Logger
	// StopTimeout bounds the time between the wish to stop and the return of
	// Run; 0 means without bound. Parts that are still running then are named.
	StopTimeout time.Duration
	// FailureTimeout takes its place after a failure, if it is set: parts that
	// wait then for what has failed are left where they are.
	FailureTimeout time.Duration
	// OnReady is called when a part has become ready, one call at a time.
	OnReady func(Status)
	// OnSlow is called, once for each part, when a part has been starting for
	// SlowAfter, 5 s if zero. It and OnReady are never called at the same time.
	OnSlow    func(Status)
	SlowAfter time.Duration
}

// Supervisor runs parts. Each part moves through these steps:
//  1. It waits until all parts in its After are ready.
//  2. Run is called; the part is ready once it says so.
//  3. When the supervisor stops, the part's context ends as soon as all parts
//     that name it in After have ended.
//
// The first part that returns an error, panics, or ends by itself stops all.
type Supervisor struct {
	config Config
	parts  []*runningPart
	byName map[string]*runningPart
	ready  chan struct{}
	// stop is closed when the parts are to stop.
	stop chan struct{}

	failOnce sync.Once
	failed   chan struct{}
	failure  error

	mu       sync.Mutex
	begin    time.Time
	notReady int
	notify   sync.Mutex
}

type runningPart struct {
	Part
	cancel context.CancelCauseFunc
	ctx    context.Context
	ready  chan struct{}
	ended  chan struct{}
	once   sync.Once
	// dependents are the parts that name this one in After.
	dependents []*runningPart
	// The rest is guarded by Supervisor.mu.
	status  Status
	startAt time.Time
}

// New checks the parts' names and dependencies. It starts nothing.
func New(config Config, parts ...Part) (*Supervisor, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.SlowAfter == 0 {
		config.SlowAfter = 5 * time.Second
	}
	order, err := sorted(parts)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		config:   config,
		byName:   make(map[string]*runningPart, len(order)),
		ready:    make(chan struct{}),
		stop:     make(chan struct{}),
		failed:   make(chan struct{}),
		notReady: len(order),
	}
	for _, p := range order {
		part := &runningPart{
			Part:   p,
			ready:  make(chan struct{}),
			ended:  make(chan struct{}),
			status: Status{Name: p.Name, State: Waiting},
		}
		s.parts = append(s.parts, part)
		s.byName[p.Name] = part
		for _, name := range p.After {
			s.byName[name].dependents = append(s.byName[name].dependents, part)
		}
	}
	return s, nil
}

// ErrStopped is the cause of a part's context when the supervisor stops.
var ErrStopped = errors.New("stopping")

// Run runs all parts until ctx ends or one fails, stops them, and returns the
// first failure, or nil. It is called once.
func (s *Supervisor) Run(ctx context.Context) error {
	s.mu.Lock()
	s.begin = time.Now()
	s.mu.Unlock()
	if len(s.parts) == 0 {
		close(s.ready)
	}
	base := context.WithoutCancel(ctx)
	for _, p := range s.parts {
		p.ctx, p.cancel = context.WithCancelCause(base)
	}
	for _, p := range s.parts {
		go s.run(p)
	}

	select {
	case <-ctx.Done():
	case <-s.failed:
	}
	close(s.stop)
	begin := time.Now()
	for _, p := range s.parts {
		go func() {
			for _, d := range p.dependents {
				<-d.ended
			}
			s.setState(p, Stopping)
			p.cancel(ErrStopped)
		}()
	}
	var deadline <-chan time.Time
	failure, limit := s.firstFailure(), s.config.StopTimeout
	if failure != nil && s.config.FailureTimeout > 0 {
		limit = s.config.FailureTimeout
	}
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		deadline = timer.C
	}
	for i := len(s.parts) - 1; i >= 0; i-- {
		select {
		case <-s.parts[i].ended:
			continue
		case <-deadline:
		}
		var late []string
		for _, p := range s.parts {
			select {
			case <-p.ended:
			default:
				late = append(late, p.Name)
			}
		}
		timeout := &StopTimeoutError{Parts: late, Timeout: limit}
		if failure != nil {
			// It is the reason: say nothing after it.
			s.config.Log.Info("leaving parts", "reason", timeout)
			return failure
		}
		return errors.Join(s.firstFailure(), timeout)
	}
	s.config.Log.Debug("all parts stopped", "took", time.Since(begin))
	return s.firstFailure()
}

func (s *Supervisor) firstFailure() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// Fail stops everything in the name of a part whose failure was noticed
// outside of its Run. Only the first failure counts.
func (s *Supervisor) Fail(part string, err error) {
	s.failOnce.Do(func() {
		s.failure = &PartError{Part: part, Err: err}
		close(s.failed)
	})
}

// Ready is closed once all parts are ready.
func (s *Supervisor) Ready() <-chan struct{} { return s.ready }

// IsReady says whether all parts are ready, and none has failed or been told to stop.
func (s *Supervisor) IsReady() bool {
	return isClosed(s.ready) && !isClosed(s.failed) && !isClosed(s.stop)
}

// Status returns the state of all parts, in start order.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	statuses := make([]Status, len(s.parts))
	for i, p := range s.parts {
		statuses[i] = p.status
	}
	s.mu.Unlock()
	// Outside of the lock: these are functions of the parts.
	for i, p := range s.parts {
		if statuses[i].State == Starting && p.Waits != nil {
			statuses[i].WaitsFor = p.Waits()
		}
	}
	return statuses
}

// slow tells of a part that has been starting for long.
func (s *Supervisor) slow(p *runningPart) {
	s.notify.Lock()
	defer s.notify.Unlock()
	s.mu.Lock()
	status := p.status
	status.Start = time.Since(p.startAt)
	s.mu.Unlock()
	if status.State != Starting {
		return
	}
	if p.Waits != nil {
		status.WaitsFor = p.Waits()
	}
	s.config.OnSlow(status)
}

func (s *Supervisor) run(p *runningPart) {
	defer close(p.ended)
	defer s.setState(p, Ended)
	defer s.config.Log.Debug("ended", "part", p.Name)
	for _, name := range p.After {
		select {
		case <-s.byName[name].ready:
		case <-s.stop:
			return
		}
	}
	select {
	case <-s.stop:
		return
	default:
	}
	s.mu.Lock()
	p.startAt = time.Now()
	p.status.State = Starting
	s.mu.Unlock()
	s.config.Log.Debug("starting", "part", p.Name)

	if s.config.OnSlow != nil {
		defer time.AfterFunc(s.config.SlowAfter, func() { s.slow(p) }).Stop()
	}
	returned := false
	defer func() {
		if !returned {
			s.Fail(p.Name, errGoexit)
		}
	}()
	err := call(p.ctx, p.Run, func() { s.partReady(p) })
	returned = true
	stopping := p.ctx.Err() != nil
	if err == nil && !stopping {
		switch {
		case p.Task:
			s.partReady(p)
		case !isClosed(p.ready):
			err = errNotReady
		default:
			err = errEndedEarly
		}
	}
	if err == nil {
		return
	}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		s.config.Log.Error("panic", "part", p.Name, "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	if stopping && panicked == nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopped)) {
		return
	}
	s.mu.Lock()
	p.status.Error = err.Error()
	s.mu.Unlock()
	s.Fail(p.Name, err)
}

func call(ctx context.Context, run func(context.Context, func()) error, ready func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return run(ctx, ready)
}

func (s *Supervisor) partReady(p *runningPart) {
	p.once.Do(func() {
		now := time.Now()
		s.mu.Lock()
		p.status.State = Running
		p.status.Start = now.Sub(p.startAt)
		p.status.Ready = now.Sub(s.begin)
		s.notReady--
		all := s.notReady == 0
		status := p.status
		s.mu.Unlock()
		if s.config.OnReady != nil {
			s.notify.Lock()
			s.config.OnReady(status)
			s.notify.Unlock()
		}
		close(p.ready)
		if all {
			close(s.ready)
		}
	})
}

func (s *Supervisor) setState(p *runningPart, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.status.State != Ended {
		p.status.State = state
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
