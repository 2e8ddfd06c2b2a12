package manifests

import (
	"context"
	"slices"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/apply"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Drift is an object that is not as its manifest made it. It is an immutable
// value.
type Drift struct {
	Object string `json:"object"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	// What is "deleted", or "changed by" and the field manager.
	What string `json:"what"`
	// putBack says that saving the file would undo it.
	putBack bool
}

func (d Drift) String() string {
	line := d.Object + ": " + d.What
	if place := (problems.Problem{File: d.File, Line: d.Line}).Place(); place != "" {
		line = place + ": " + line
	}
	return line
}

// putBack makes the next plan apply those matching records whose objects have drifted.
func (s *Syncer) putBack(ctx context.Context, match func(plan.Record) bool) error {
	var records []plan.Record
	for _, r := range s.inv.Records {
		if match(r) {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil
	}
	drift, lost, err := s.cluster.FindDrift(ctx, records)
	if err != nil {
		return err
	}
	again := map[source.Key]bool{}
	for _, key := range lost {
		again[key] = true
	}
	for key := range drift {
		again[key] = true
	}
	s.inv.Unsettle(func(r plan.Record) bool { return again[r.Key] })
	return nil
}

// watchDrift looks for changes by others, and prints those that are new.
func (s *Syncer) watchDrift(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.updateDrift(ctx); err != nil {
		s.cfg.Log.Debug("look for drift", "error", err)
	}
}

func (s *Syncer) updateDrift(ctx context.Context) error {
	records := make([]plan.Record, 0, len(s.inv.Records))
	for _, r := range s.inv.Records {
		records = append(records, r)
	}
	found, lost, err := s.cluster.FindDrift(ctx, records)
	if err != nil {
		return err
	}
	gone := map[source.Key]bool{}
	for _, key := range lost {
		gone[key] = true
	}
	s.inv.Unsettle(func(r plan.Record) bool { return gone[r.Key] })
	drift := map[source.Key]Drift{}
	var fresh []Drift
	for key, what := range found {
		d := Drift{Object: key.String(), File: s.shown[key].File, Line: s.shown[key].Line, What: what}
		_, fails := s.failures[key]
		d.putBack = d.Line > 0 && d.File != source.StdinShown && !fails && !s.owned[key] && apply.CanPutBack(what)
		drift[key] = d
		if s.drift[key] != d {
			fresh = append(fresh, d)
		}
	}
	s.drift = drift
	slices.SortFunc(fresh, func(a, b Drift) int { return strings.Compare(a.String(), b.String()) })
	s.printer.drift(fresh)
	s.publishDrift()
	return nil
}
