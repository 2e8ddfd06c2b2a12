package manifests

import (
	"maps"
	"slices"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
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
	Faults  []problems.Problem `json:"faults,omitempty"`
	Waiting []problems.Problem `json:"waiting,omitempty"`
	Held    []plan.Step        `json:"held,omitempty"`
	Drift   []Drift            `json:"drift,omitempty"`
	// Notices are what the user should know as long as it is so, Leaving what was deleted and
	// is still there, with what holds it.
	Notices []problems.Problem `json:"notices,omitempty"`
	Leaving []problems.Problem `json:"leaving,omitempty"`
	// Took is the length of the newest pass.
	Took time.Duration `json:"took"`
	// Ended is when it ended.
	Ended time.Time `json:"ended"`
}

// Status is that after the newest pass.
func (s *Syncer) Status() Status {
	status := *s.status.Load()
	if s.reader == nil {
		return status
	}
	if fault, stuck := s.reader.stuck(); stuck && !slices.Contains(status.Faults, fault) {
		status.Faults = append(slices.Clip(status.Faults), fault)
		status.InSync = false
	}
	return status
}

func (s *Syncer) publish(snapshot *source.Snapshot, made *plan.Plan, done tally, took time.Duration) {
	status := &Status{
		Ready:   s.ready,
		Polling: s.reader.why(),
		Files:   len(snapshot.Sources),
		Objects: made.Total,
		Applied: s.applied,
		Pruned:  s.pruned,
		Faults:  slices.Concat(made.Failed, done.failed),
		Waiting: slices.Concat(made.Waiting, done.waiting),
		Held:    made.Held,
		Drift:   s.driftList(),
		Notices: made.Notices,
		Leaving: s.leavingList(0),
		Took:    took,
		Ended:   s.cfg.now(),
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
	for _, key := range slices.SortedFunc(maps.Keys(s.drift), source.CompareKeys) {
		list = append(list, s.drift[key])
	}
	return list
}
