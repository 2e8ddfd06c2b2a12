package manifests

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/wait"
)

// try sends the steps of plan with dry-run set, and moves those that are refused
// to Failed.
func (s *Syncer) try(ctx context.Context, sc *scan, plan *Plan, scratch bool) error {
	if scratch {
		if err := s.prepareScratch(ctx, sc, plan); err != nil {
			return err
		}
	}
	dry := *s.executor
	dry.dryRun = true
	inDir := map[string]bool{}
	for _, step := range plan.Apply {
		if step.Object.GroupKind() == namespaceKind {
			inDir[step.Object.Name] = true
		}
	}
	var applied []Step
	dry.run(ctx, plan.Apply, func(o outcome) {
		step := o.step
		for _, text := range o.warnings {
			plan.Warnings = append(plan.Warnings, Fault{File: step.File, Line: step.Line, Object: step.Object.String(), Message: text})
		}
		if o.err == nil {
			applied = append(applied, step)
			return
		}
		r := reject(o.err)
		if r.namespace != "" && inDir[r.namespace] {
			step.Why = "not tried, as its namespace does not exist yet"
			applied = append(applied, step)
			return
		}
		plan.Failed = append(plan.Failed, Fault{File: step.File, Line: fieldLine(step.path, step.Line, r.field), Object: step.Object.String(), Message: r.message})
	})
	plan.Apply = inOrder(applied)
	var pruned []Step
	dry.run(ctx, plan.Prune, func(o outcome) {
		if o.err != nil {
			plan.Failed = append(plan.Failed, Fault{File: o.step.File, Object: o.step.Object.String(), Message: string(o.step.Action) + ": " + reject(o.err).message})
			return
		}
		pruned = append(pruned, o.step)
	})
	plan.Failed = append(plan.Failed, plan.stuck...)
	plan.Waiting = slices.DeleteFunc(plan.Waiting, func(f Fault) bool { return slices.Contains(plan.stuck, f) })
	plan.Prune = inOrder(pruned)
	slices.Reverse(plan.Prune)
	slices.SortFunc(plan.Failed, compareFaults)
	slices.SortFunc(plan.Warnings, compareFaults)
	return ctx.Err()
}

func inOrder(steps []Step) []Step {
	// Stable, as elsewhere: each algorithm is kept once per type it sorts.
	slices.SortStableFunc(steps, func(a, b Step) int {
		if d := wave(a.Object) - wave(b.Object); d != 0 {
			return d
		}
		return compareKeys(a.Object, b.Object)
	})
	return steps
}

// prepareScratch applies what others need at admission, such as namespaces, CRDs and
// Services, and waits for the kinds they bring; plan is then made again, with all of its steps.
func (s *Syncer) prepareScratch(ctx context.Context, sc *scan, plan *Plan) error {
	var ground []Step
	for _, step := range plan.Apply {
		if wave(step.Object) <= 1 {
			ground = append(ground, step)
		}
	}
	s.executor.run(ctx, ground, func(o outcome) {
		if gk, ok := definedKind(o.step.object); ok && o.err == nil && o.step.Object.GroupKind() == crdKind {
			s.kinds.forgetGroup(gk.Group)
		}
	})
	waitCtx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := wait.PollUntilContextCancel(waitCtx, soonEvery, true, func(ctx context.Context) (bool, error) {
		if err := s.refresh(ctx, sc, false); err != nil {
			return false, nil // once more, until the time is over
		}
		*plan = *makePlan(s.state(ctx, sc))
		return plan.coming == 0, nil
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
