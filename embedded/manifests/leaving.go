package manifests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// leavingMany is the number of deleted objects from which each is looked at less often.
	leavingMany = 50
	// leavingTold is how long a deletion may take before a line says what holds it.
	leavingTold = 5 * time.Second
)

// leaving is what is known about an object that was deleted and is still there.
type leaving struct {
	since, next time.Time
	why         string
}

// lose takes note that objects went with their namespace or kind, so that they
// are applied again when it returns. It reports whether step removes such.
func (s *Syncer) lose(step plan.Step) bool {
	if step.Action != plan.Prune {
		return false
	}
	switch step.Object.GroupKind() {
	case plan.NamespaceKind:
		s.inv.Unsettle(func(r plan.Record) bool { return r.Namespace == step.Object.Name })
	case plan.CRDKind:
		s.inv.Unsettle(func(r plan.Record) bool {
			served, ok := s.cluster.Kinds.Get(r.GroupKind().WithVersion(r.Version))
			return ok && plan.CRDKey(served) == step.Object
		})
	default:
		return false
	}
	return true
}

// awaitLeaving forgets those deleted objects that are gone for good, or back, and
// finds out what holds the others.
func (s *Syncer) awaitLeaving(ctx context.Context) error {
	now := s.cfg.now()
	pause := laterEvery
	if len(s.inv.Leaving) > leavingMany {
		pause *= 10
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.inv.Leaving), source.CompareKeys) {
		l, seen := s.leaving[key]
		if seen && now.Before(l.next) {
			continue
		}
		why, gone, err := s.cluster.Holder(ctx, key, s.inv.Leaving[key])
		if err != nil {
			return fmt.Errorf("wait for the end of %s: %w", key, err)
		}
		if !gone {
			if !seen {
				l.since = now
			}
			l.why, l.next = why, now.Add(pause)
			s.leaving[key] = l
			continue
		}
		delete(s.leaving, key)
		s.inv.Left(key)
		if _, group, ok := strings.Cut(key.Name, "."); ok && key.GroupKind() == plan.CRDKind {
			s.cluster.Kinds.ForgetGroup(group)
		}
	}
	return nil
}

// leavingList is what is still there of what was deleted at least age ago.
func (s *Syncer) leavingList(age time.Duration) []problems.Problem {
	var list []problems.Problem
	for _, key := range slices.SortedFunc(maps.Keys(s.inv.Leaving), source.CompareKeys) {
		l := s.leaving[key]
		if age > 0 && (l.since.IsZero() || s.cfg.now().Sub(l.since) < age) {
			continue
		}
		message := "was deleted, and is not gone yet"
		if l.why != "" {
			message += ": " + source.OneLine(l.why)
		}
		list = append(list, problems.Problem{Object: key.Object(), Message: message})
	}
	return list
}
