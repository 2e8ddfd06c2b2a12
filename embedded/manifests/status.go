package manifests

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Status is how far the cluster is in step with the directories. It is an
// immutable value.
type Status struct {
	// Ready is set once the first pass is done.
	Ready bool `json:"ready"`
	// InSync is set if everything in the directories is applied, and nothing waits to be
	// deleted. Drift does not count: it is somebody's wish.
	InSync bool `json:"inSync"`
	// Polling is why the directories are polled instead of watched, or empty.
	Polling string `json:"polling,omitempty"`
	Files   int    `json:"files"`
	Objects int    `json:"objects"`
	// Applied and Pruned count requests since the start.
	Applied int `json:"applied"`
	Pruned  int `json:"pruned"`
	// Faults keep objects from being applied; Waiting are those whose kind or namespace
	// is missing; Held are deletions that wait.
	Faults  []Fault `json:"faults,omitempty"`
	Waiting []Fault `json:"waiting,omitempty"`
	Held    []Step  `json:"held,omitempty"`
	Drift   []Drift `json:"drift,omitempty"`
	// Notices are what the user should know as long as it is so, Leaving what was deleted and
	// is still there, with what holds it.
	Notices []Fault `json:"notices,omitempty"`
	Leaving []Fault `json:"leaving,omitempty"`
	// Took is the length of the newest pass.
	Took time.Duration `json:"took"`
}

// Status is that after the newest pass.
func (s *Syncer) Status() Status { return *s.status.Load() }

func (s *Syncer) publish(sc *scan, plan *Plan, done tally, took time.Duration) {
	status := &Status{
		Ready:   s.ready,
		Polling: s.watcher.polling,
		Files:   len(sc.sources),
		Objects: plan.total,
		Applied: s.applied,
		Pruned:  s.pruned,
		Faults:  slices.Concat(plan.Failed, done.failed),
		Waiting: slices.Concat(plan.Waiting, done.waiting),
		Held:    plan.Held,
		Drift:   s.driftList(),
		Notices: plan.Notices,
		Leaving: s.leavingList(0),
		Took:    took,
	}
	status.InSync = s.ready && len(status.Faults) == 0 && len(status.Waiting) == 0 && len(status.Held) == 0 && len(status.Leaving) == 0
	s.status.Store(status)
}

func (s *Syncer) publishDrift() {
	status := *s.status.Load()
	status.Drift = s.driftList()
	s.status.Store(&status)
}

func (s *Syncer) driftList() []Drift {
	var list []Drift
	for _, key := range slices.SortedFunc(maps.Keys(s.drift), compareKeys) {
		list = append(list, s.drift[key])
	}
	return list
}

// DryRun plans against the API server's present state and sends each step with
// dry-run set, so that validation and all webhooks see it; nothing is changed.
// Objects whose namespace or kind the directory itself brings cannot be tried while
// that does not exist: with scratch, for a server that nobody else uses, such
// ground is applied for real. The plan's Failed has everything that would fail.
func (s *Syncer) DryRun(ctx context.Context, scratch bool) (*Plan, error) {
	if err := CheckDirs(s.cfg.Dirs); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inv == nil {
		if err := s.open(ctx, s.cfg.RESTConfig); err != nil {
			return nil, err
		}
	}
	if s.scanner == nil {
		if err := s.scanInto(func(string, string) {}); err != nil {
			return nil, err
		}
	}
	sc := s.scanner.scan()
	if err := s.refresh(ctx, sc, false); err != nil {
		return nil, err
	}
	plan := makePlan(s.state(ctx, sc))
	return plan, s.try(ctx, sc, plan, scratch)
}
