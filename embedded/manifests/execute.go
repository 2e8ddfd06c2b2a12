package manifests

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// tally is what became of a plan.
type tally struct {
	applied, pruned int
	// failed and waiting are new, and still to be printed.
	failed, waiting []Fault
	coming          int
	// opened says that something others may have waited for was applied.
	opened bool
	took   time.Duration
}

// execute carries out a plan. The error is about the inventory; those of objects
// are in the tally.
func (s *Syncer) execute(ctx context.Context, plan *Plan) (tally, error) {
	var done tally
	began := s.cfg.now()
	for _, r := range plan.moved {
		s.inv.put(r)
	}
	steps := plan.Apply
	recordErr := s.recordNew(steps)
	if recordErr != nil {
		steps = s.onlyRecorded(steps)
	}
	s.executor.run(ctx, steps, func(o outcome) { s.settle(ctx, o, &done) })
	s.executor.run(ctx, plan.Prune, func(o outcome) { s.settle(ctx, o, &done) })
	if recordErr == nil {
		recordErr = s.inv.save()
	}
	done.took = s.cfg.now().Sub(began)
	return done, recordErr
}

// recordNew stores the keys of new objects before they are applied: what may
// exist is known, whenever the process ends.
func (s *Syncer) recordNew(steps []Step) error {
	isNew := false
	for _, step := range steps {
		if _, ok := s.inv.records[step.Object]; !ok {
			isNew = true
			s.inv.put(Record{Key: step.Object, Version: step.gvk.Version, File: step.path})
		}
	}
	if !isNew {
		return nil
	}
	err := s.inv.save()
	if err != nil {
		for _, step := range steps {
			if step.before == (Record{}) {
				s.inv.drop(step.Object)
			}
		}
		return fmt.Errorf("%w; new objects are not applied meanwhile", err)
	}
	return nil
}

func (s *Syncer) onlyRecorded(steps []Step) []Step {
	var recorded []Step
	for _, step := range steps {
		if _, ok := s.inv.records[step.Object]; ok {
			recorded = append(recorded, step)
		}
	}
	return recorded
}

// settle takes note of one outcome.
func (s *Syncer) settle(ctx context.Context, o outcome, done *tally) {
	step := o.step
	for _, text := range o.warnings {
		s.printer.warning(Fault{File: step.File, Line: step.Line, Object: step.Object.String(), Message: text})
	}
	if o.ignoredStatus != "" {
		s.printer.ignoredStatus(step, o.ignoredStatus)
	}
	if o.err != nil {
		s.fail(ctx, o, done)
		return
	}
	delete(s.failures, step.Object)
	delete(s.drift, step.Object)
	if step.Action == Apply {
		done.applied++
		s.applied++
		s.inv.put(o.record)
		if gk, ok := definedKind(step.object); ok && step.Object.GroupKind() == crdKind {
			s.kinds.forgetGroup(gk.Group)
			done.opened = true
		}
		if step.Object.GroupKind() == namespaceKind {
			done.opened = true
		}
		return
	}
	if o.sharedWith != "" {
		s.printer.line("%s is not deleted, as %s applied it too", step.Object, o.sharedWith)
	}
	done.pruned++
	s.pruned++
	s.inv.drop(step.Object)
	if o.leaving {
		s.inv.leave(step.Object, step.gvk.Version)
	}
	if s.lose(step) {
		done.opened = true
	}
}

func (s *Syncer) fail(ctx context.Context, o outcome, done *tally) {
	step := o.step
	r := reject(o.err)
	if apierrors.IsServiceUnavailable(o.err) {
		if why := s.kinds.down(ctx, step.gvk.GroupVersion()); why != "" {
			r.message = why
		}
	}
	if r.kindGone {
		s.kinds.forget(step.gvk.GroupVersion())
	}
	if step.Action == Apply && (o.partial || !r.certain) {
		// Its state is not known any more.
		record := step.before
		if record == (Record{}) {
			record = Record{Key: step.Object, Version: step.gvk.Version, File: step.path}
		}
		record.Hash, record.Fields = "", ""
		record.HasStatus = record.HasStatus || o.record.HasStatus
		s.inv.put(record)
	}
	before := s.failures[step.Object]
	now := s.cfg.now()
	failed := failure{
		hash: step.hash, line: step.Line, namespace: r.namespace, transient: r.transient,
		fault: Fault{File: step.File, Line: fieldLine(step.path, step.Line, r.field), Object: step.Object.String(), Message: r.message},
		since: now,
	}
	if before.hash == failed.hash {
		failed.attempts, failed.since = before.attempts+1, before.since
	}
	if step.Action != Apply {
		failed.fault.Message = fmt.Sprintf("%s: %s", step.Action, r.message)
	}
	if failed.transient && now.Sub(failed.since) > readyWithin {
		failed.transient = false // it does not pass by itself
	}
	failed.next = now.Add(r.pause(failed.attempts))
	s.failures[step.Object] = failed
	if failed.namespace != "" {
		done.waiting = append(done.waiting, failed.fault)
	} else {
		done.failed = append(done.failed, failed.fault)
	}
	if failed.transient {
		done.coming++
	}
}

// after decides when the next pass is due, and whether the first one is over.
func (s *Syncer) after(plan *Plan, done tally) time.Time {
	now := s.cfg.now()
	if done.opened {
		// What waited for a namespace or a kind is tried at once.
		for key, failed := range s.failures {
			if failed.namespace != "" || failed.transient {
				failed.next = now
				s.failures[key] = failed
			}
		}
	} else if done.applied > 0 && len(s.failures) <= 50 {
		// What was refused may have lacked just this.
		for key, failed := range s.failures {
			if soon := now.Add(4 * soonEvery); failed.next.After(soon) {
				failed.next = soon
				s.failures[key] = failed
			}
		}
	}
	coming := plan.coming + done.coming
	if done.opened {
		plan.retryAt(now.Add(soonEvery))
		coming += len(plan.Waiting) + len(done.waiting)
	}
	switch {
	case coming > 0 && now.Sub(s.started) < readyWithin:
		plan.retryAt(now.Add(soonEvery))
	case coming > 0 || len(plan.Waiting) > 0 || len(s.inv.leaving) > 0:
		plan.retryAt(now.Add(laterEvery))
	}
	for _, failed := range s.failures {
		plan.retryAt(failed.next)
	}
	flush := false
	if !s.ready && (coming == 0 || now.Sub(s.started) >= readyWithin) {
		s.ready, flush = true, true
	}
	faults := append(append([]Fault{}, plan.Failed...), done.failed...)
	waiting := slices.Concat(plan.Waiting, done.waiting, s.leavingList(leavingTold))
	if due := s.printer.result(done, faults, waiting, plan.Notices, flush, coming > 0); !due.IsZero() {
		plan.retryAt(due)
	}
	return plan.retry
}
