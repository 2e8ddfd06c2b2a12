package manifests

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/apply"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// tally is what became of a plan.
type tally struct {
	applied, pruned int
	// failed and waiting are new, and still to be printed.
	failed, waiting []problems.Problem
	coming          int
	// opened says that something others may have waited for was applied.
	opened bool
	took   time.Duration
}

// execute carries out a plan. The error is about the inventory; those of objects
// are in the tally.
func (s *Syncer) execute(ctx context.Context, made *plan.Plan, snapshot *source.Snapshot) (tally, error) {
	var done tally
	began := s.cfg.now()
	for _, r := range made.Moved {
		s.inv.Put(r)
	}
	steps := made.Apply
	recordErr := s.recordNew(steps)
	if recordErr != nil {
		steps = s.onlyRecorded(steps)
	}
	s.cluster.Run(ctx, steps, func(o apply.Outcome) { s.settle(ctx, o, snapshot, &done) })
	s.cluster.Run(ctx, made.Prune, func(o apply.Outcome) { s.settle(ctx, o, snapshot, &done) })
	if recordErr == nil {
		recordErr = s.inv.Save()
	}
	done.took = s.cfg.now().Sub(began)
	return done, recordErr
}

// recordNew stores the keys of new objects before they are applied: what may
// exist is known, whenever the process ends.
func (s *Syncer) recordNew(steps []plan.Step) error {
	isNew := false
	for _, step := range steps {
		if _, ok := s.inv.Records[step.Object]; !ok {
			isNew = true
			s.inv.Put(plan.Record{Key: step.Object, Version: step.GVK.Version, File: step.Path})
		}
	}
	if !isNew {
		return nil
	}
	err := s.inv.Save()
	if err != nil {
		for _, step := range steps {
			if step.Before == (plan.Record{}) {
				s.inv.Drop(step.Object)
			}
		}
		return fmt.Errorf("%w; new objects are not applied meanwhile", err)
	}
	return nil
}

func (s *Syncer) onlyRecorded(steps []plan.Step) []plan.Step {
	var recorded []plan.Step
	for _, step := range steps {
		if _, ok := s.inv.Records[step.Object]; ok {
			recorded = append(recorded, step)
		}
	}
	return recorded
}

// settle takes note of one outcome.
func (s *Syncer) settle(ctx context.Context, o apply.Outcome, snapshot *source.Snapshot, done *tally) {
	step := o.Step
	if step.Action == plan.Apply { // else there is no file that could be mended
		for _, text := range o.Warnings {
			s.printer.warning(warningOf(snapshot, step, text))
		}
	}
	if o.IgnoredStatus != "" {
		s.printer.ignoredStatus(step, o.IgnoredStatus)
	}
	if o.Err != nil {
		s.fail(ctx, o, snapshot, done)
		return
	}
	delete(s.failures, step.Object)
	delete(s.drift, step.Object)
	if step.Action == plan.Apply {
		done.applied++
		s.applied++
		s.inv.Put(o.Record)
		if gk, ok := plan.DefinedKind(step.Manifest); ok && step.Object.GroupKind() == plan.CRDKind {
			s.cluster.Kinds.ForgetGroup(gk.Group)
			done.opened = true
		}
		if step.Object.GroupKind() == plan.NamespaceKind {
			done.opened = true
		}
		return
	}
	if o.SharedWith != "" {
		s.printer.line("%s is not deleted, as %s applied it too", step.Object, o.SharedWith)
	}
	done.pruned++
	s.pruned++
	s.inv.Drop(step.Object)
	if o.Leaving {
		s.inv.Leave(step.Object, step.GVK.Version)
	}
	if s.lose(step) {
		done.opened = true
	}
}

func (s *Syncer) fail(ctx context.Context, o apply.Outcome, snapshot *source.Snapshot, done *tally) {
	step := o.Step
	r := apply.Reject(o.Err)
	if apierrors.IsServiceUnavailable(o.Err) {
		if why := s.cluster.Kinds.Down(ctx, step.GVK.GroupVersion()); why != "" {
			r.Message = why
		}
	}
	if r.KindGone {
		s.cluster.Kinds.Forget(step.GVK.GroupVersion())
	}
	if step.Action == plan.Apply && (o.Partial || !r.Certain) {
		// Its state is not known any more.
		record := step.Before
		if record == (plan.Record{}) {
			record = plan.Record{Key: step.Object, Version: step.GVK.Version, File: step.Path}
		}
		record.Hash, record.Fields = "", ""
		record.HasStatus = record.HasStatus || o.Record.HasStatus
		s.inv.Put(record)
	} else if step.Action == plan.Apply && step.Before == (plan.Record{}) {
		s.inv.Drop(step.Object) // it was refused, so there is nothing to delete later
	}
	before := s.failures[step.Object]
	now := s.cfg.now()
	failed := plan.Failure{
		Hash: step.Hash, Line: step.Line, Namespace: r.Namespace, Transient: r.Transient,
		Fault: problems.Problem{File: step.File, Line: fieldLine(snapshot, step, r.Field), Object: step.Object.Object(), Message: r.Message},
		Since: now,
	}
	if before.Hash == failed.Hash {
		failed.Attempts, failed.Since = before.Attempts+1, before.Since
	}
	if step.Action != plan.Apply {
		failed.Fault.Message = fmt.Sprintf("%s: %s", step.Action, r.Message)
	}
	if failed.Transient && now.Sub(failed.Since) > readyWithin {
		failed.Transient = false // it does not pass by itself
	}
	failed.Next = now.Add(r.Pause(failed.Attempts))
	s.failures[step.Object] = failed
	if failed.Namespace != "" {
		done.waiting = append(done.waiting, failed.Fault)
	} else {
		done.failed = append(done.failed, failed.Fault)
	}
	if failed.Transient {
		done.coming++
	}
}

// after decides when the next pass is due, and whether the first one is over.
func (s *Syncer) after(made *plan.Plan, done tally) (next time.Time) {
	now := s.cfg.now()
	if done.opened {
		// What waited for a namespace or a kind is tried at once.
		for key, failed := range s.failures {
			if failed.Namespace != "" || failed.Transient {
				failed.Next = now
				s.failures[key] = failed
			}
		}
	} else if done.applied > 0 && len(s.failures) <= 50 {
		// What was refused may have lacked just this.
		for key, failed := range s.failures {
			if soon := now.Add(4 * soonEvery); failed.Next.After(soon) {
				failed.Next = soon
				s.failures[key] = failed
			}
		}
	}
	coming := made.Coming + done.coming
	if done.opened {
		next = earlier(next, now.Add(soonEvery))
		coming += len(made.Waiting) + len(done.waiting)
	}
	switch {
	case coming > 0 && now.Sub(s.started) < readyWithin:
		next = earlier(next, now.Add(soonEvery))
	case coming > 0 || len(made.Waiting) > 0 || len(s.inv.Leaving) > 0:
		next = earlier(next, now.Add(laterEvery))
	}
	for _, failed := range s.failures {
		next = earlier(next, failed.Next)
	}
	flush := false
	if !s.ready && (coming == 0 || now.Sub(s.started) >= readyWithin) {
		s.ready, flush = true, true
	}
	faults := slices.Concat(made.Failed, done.failed)
	waiting := slices.Concat(made.Waiting, done.waiting, s.leavingList(leavingTold))
	if due := s.printer.result(done, faults, waiting, made.Notices, flush, coming > 0); !due.IsZero() {
		next = earlier(next, due)
	}
	return next
}
