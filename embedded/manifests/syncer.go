package manifests

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/apply"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// readyWithin bounds how long what the directory itself brings, such as a CRD for
	// its objects, may hold up the end of the first pass.
	readyWithin = 5 * time.Second
	// soonEvery and laterEvery are how often a missing kind or namespace is looked
	// for, if the directory brings it and otherwise.
	soonEvery  = 50 * time.Millisecond
	laterEvery = 500 * time.Millisecond
	// stopWithin bounds how long the end waits for a reading that does not end.
	stopWithin = time.Second
)

// Syncer applies directories of manifests, and follows their changes.
type Syncer struct {
	cfg    Config
	status atomic.Pointer[Status]
	reader *reader

	// mu is held by a pass, and by DryRun.
	mu       sync.Mutex
	cluster  *apply.Cluster
	printer  *printer
	inv      *apply.Inventory
	base     map[source.Key]plan.Base
	failures map[source.Key]plan.Failure
	drift    map[source.Key]Drift
	leaving  map[source.Key]leaving
	// shown is where each desired object is written, for messages.
	shown map[source.Key]problems.Problem
	// owned are the desired objects that the garbage collector deletes with another one.
	owned   map[source.Key]bool
	started time.Time
	passed  bool // there was a pass
	ready   bool
	applied int // since the start
	pruned  int
}

// New makes a Syncer; it does no I/O.
func New(cfg Config) *Syncer {
	cfg.setDefaults()
	s := &Syncer{
		cfg:      cfg,
		printer:  newPrinter(cfg.Out, cfg.now),
		base:     map[source.Key]plan.Base{},
		failures: map[source.Key]plan.Failure{},
		drift:    map[source.Key]Drift{},
		leaving:  map[source.Key]leaving{},
	}
	for _, b := range cfg.Base {
		s.base[source.Object{Unstructured: b.Object}.Key()] = b
	}
	s.status.Store(&Status{})
	return s
}

// Run applies the directories and follows them until ctx ends. It calls ready
// when the first pass is done: everything was tried, and what the directories
// themselves bring, such as CRDs, was waited for. Faults in manifests are printed,
// and no reason to return.
func (s *Syncer) Run(ctx context.Context, ready func()) error {
	if len(s.cfg.Dirs) == 0 {
		s.status.Store(&Status{Ready: true, InSync: true})
		ready()
		<-ctx.Done()
		return nil
	}
	if err := CheckDirs(s.cfg.Dirs); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	watcher := source.NewWatcher(s.cfg.notify, s.cfg.Log)
	scanner, err := s.newScanner(watcher.Add)
	if err != nil {
		return err
	}
	s.reader = newReader(&s.cfg, scanner, watcher)
	g, ctx := lifecycle.NewGroup(ctx)
	g.Go("watch of files", func() error { return watcher.Run(ctx) })
	g.Go("passes", func() error {
		ctx, end := context.WithCancel(ctx)
		read := lifecycle.Go("reading of files", func() error {
			defer end()
			s.reader.run(ctx)
			return nil
		})
		s.loop(ctx, ready)
		// A file system that does not answer cannot be made to: the end does not wait for it.
		select {
		case err := <-read:
			return err
		case <-time.After(stopWithin):
			return nil
		}
	})
	return g.Wait()
}

func (s *Syncer) newScanner(watch func(dir, name string)) (*source.Scanner, error) {
	exclude := slices.Clone(s.cfg.Exclude)
	if s.cfg.StateDir != "" {
		exclude = append(exclude, s.cfg.StateDir)
	}
	return source.NewScanner(source.Config{
		Dirs: s.cfg.Dirs, Exclude: exclude, PruneEmpty: s.cfg.PruneEmpty, Patterns: s.cfg.Patterns, Stdin: s.cfg.Stdin, Watch: watch, Now: s.cfg.now,
	})
}

// open connects to the API server and loads the inventory.
func (s *Syncer) open(ctx context.Context) error {
	cluster, err := apply.New(apply.Config{
		REST: s.cfg.RESTConfig, StatusOwners: s.cfg.StatusOwners, Workers: s.cfg.workers, Now: s.cfg.now, Log: s.cfg.Log,
	})
	if err != nil {
		return err
	}
	id, err := cluster.ID(ctx)
	if err != nil {
		return err
	}
	inv, replaced, err := apply.LoadInventory(s.cfg.StateDir, s.cfg.Sync, id)
	if err != nil {
		return err
	}
	if replaced {
		s.printer.line("the inventory of %s is of another cluster, and is started anew", s.cfg.StateDir)
	}
	s.cluster, s.inv = cluster, inv
	return nil
}

func (s *Syncer) loop(ctx context.Context, ready func()) {
	s.started = s.cfg.now()
	nextDrift := s.started.Add(s.cfg.driftEvery)
	for {
		next := s.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.ready {
			ready()
			ready = func() {}
		}
		due := nextDrift
		if !next.IsZero() && next.Before(due) {
			due = next
		}
		woken := s.wait(ctx, due)
		if ctx.Err() != nil {
			return
		}
		if !woken && !s.cfg.now().Before(nextDrift) {
			s.watchDrift(ctx)
			nextDrift = s.cfg.now().Add(s.cfg.driftEvery)
		}
	}
}

// wait returns true after a reading, false when due comes first.
func (s *Syncer) wait(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(max(due.Sub(s.cfg.now()), time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	case <-s.reader.fresh:
		return true
	}
}

// pass brings the cluster in step with what was read last, and returns when to do so
// again though nothing changes.
func (s *Syncer) pass(ctx context.Context) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, saved := s.reader.take()
	if snapshot == nil {
		return s.unread()
	}
	began := s.cfg.now()
	first := !s.passed
	s.printer.polling(s.reader.why(), s.cfg.pollEvery)
	if err := s.refresh(ctx, snapshot, saved, first); err != nil {
		s.reader.keep(saved)
		if ctx.Err() == nil {
			s.printer.line("cannot reach the API server, trying again: %v", err)
		}
		return s.cfg.now().Add(time.Second)
	}
	s.passed = true
	made := s.make(ctx, snapshot)
	if first && made.Foreign > 0 {
		s.printer.line("%d objects of directories that this run does not have are left alone", made.Foreign)
	}
	s.printer.plan(made)
	done, err := s.execute(ctx, made, snapshot)
	if ctx.Err() != nil {
		return time.Time{}
	}
	next := made.Retry
	if err != nil {
		done.failed = append(done.failed, problems.Problem{Message: err.Error()})
		next = earlier(next, s.cfg.now().Add(2*time.Second))
	}
	s.remember(snapshot)
	next = earlier(next, s.after(made, done))
	s.publish(snapshot, made, done, s.cfg.now().Sub(began))
	return next
}

// unread is a pass while nothing has been read yet.
func (s *Syncer) unread() time.Time {
	fault, stuck := s.reader.stuck()
	if stuck {
		// What waits for readiness is told by Status and by the line that it may wait for ever.
		s.ready = true
		s.printer.result(tally{}, []problems.Problem{fault}, nil, nil, true, false)
		s.status.Store(&Status{Ready: true, Faults: []problems.Problem{fault}})
	}
	return s.cfg.now().Add(laterEvery)
}

// earlier is the earlier of two times of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// remember drops what nothing asks for any more.
func (s *Syncer) remember(snapshot *source.Snapshot) {
	needed := map[string]bool{}
	for _, r := range s.inv.Records {
		needed[r.File] = true
	}
	s.reader.need(needed)
	s.shown, s.owned = map[source.Key]problems.Problem{}, map[source.Key]bool{}
	for _, src := range snapshot.Sources {
		for _, o := range src.Objects {
			key := s.keyOf(o)
			s.shown[key] = problems.Problem{File: src.Shown, Line: o.Line}
			if len(o.Unstructured.GetOwnerReferences()) > 0 {
				s.owned[key] = true
			}
		}
	}
	for key := range s.failures {
		_, wanted := s.shown[key]
		_, recorded := s.inv.Records[key]
		if !wanted && !recorded {
			delete(s.failures, key)
		}
	}
	for _, key := range slices.Collect(maps.Keys(s.drift)) {
		if _, recorded := s.inv.Records[key]; !recorded {
			delete(s.drift, key)
		}
	}
}
