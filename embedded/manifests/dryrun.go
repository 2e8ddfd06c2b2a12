package manifests

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/apply"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// DryRun plans against the API server's present state and sends each step with
// dry-run set, so that validation and all webhooks see it; nothing is changed.
// Objects whose namespace or kind the directory itself brings cannot be tried while
// that does not exist: with scratch, for a server that nobody else uses, such
// ground is applied for real. The plan's Failed has everything that would fail.
func (s *Syncer) DryRun(ctx context.Context, scratch bool) (*plan.Plan, error) {
	if err := CheckDirs(s.cfg.Dirs); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inv == nil {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	scanner, err := s.newScanner(func(string, string) {})
	if err != nil {
		return nil, err
	}
	snapshot := scanner.Scan()
	if err := s.refresh(ctx, snapshot, nil, false); err != nil {
		return nil, err
	}
	made := s.make(ctx, snapshot)
	if scratch {
		if made, err = s.prepareScratch(ctx, snapshot, made); err != nil {
			return nil, err
		}
	}
	return s.try(ctx, snapshot, made), ctx.Err()
}

// try sends the steps of a plan with dry-run set, and returns it with those that are refused
// in Failed.
func (s *Syncer) try(ctx context.Context, snapshot *source.Snapshot, made *plan.Plan) *plan.Plan {
	tried := *made
	tried.Apply, tried.Prune = nil, nil
	tried.Warnings, tried.Failed = slices.Clone(made.Warnings), slices.Concat(made.Failed, made.Stuck)
	tried.Waiting = slices.DeleteFunc(slices.Clone(made.Waiting), func(f problems.Problem) bool { return slices.Contains(made.Stuck, f) })
	dry := s.cluster.Dry()
	inDir := map[string]bool{}
	for _, step := range made.Apply {
		if step.Object.GroupKind() == plan.NamespaceKind {
			inDir[step.Object.Name] = true
		}
	}
	dry.Run(ctx, made.Apply, func(o apply.Outcome) {
		step := o.Step
		for _, text := range o.Warnings {
			tried.Warnings = append(tried.Warnings, warningOf(snapshot, step, text))
		}
		if o.Err == nil {
			tried.Apply = append(tried.Apply, step)
			return
		}
		r := apply.Reject(o.Err)
		if r.Namespace != "" && inDir[r.Namespace] {
			step.Why = "not tried, as its namespace does not exist yet"
			tried.Apply = append(tried.Apply, step)
			return
		}
		tried.Failed = append(tried.Failed, problems.Problem{File: step.File, Line: fieldLine(snapshot, step, r.Field), Object: step.Object.Object(), Message: r.Message})
	})
	dry.Run(ctx, made.Prune, func(o apply.Outcome) {
		if o.Err != nil {
			tried.Failed = append(tried.Failed, problems.Problem{File: o.Step.File, Object: o.Step.Object.Object(), Message: string(o.Step.Action) + ": " + apply.Reject(o.Err).Message})
			return
		}
		tried.Prune = append(tried.Prune, o.Step)
	})
	inOrder(tried.Apply)
	inOrder(tried.Prune)
	slices.SortFunc(tried.Failed, source.CompareFaults)
	slices.SortFunc(tried.Warnings, source.CompareFaults)
	return &tried
}

func inOrder(steps []plan.Step) {
	// Stable, as elsewhere: each algorithm is kept once per type it sorts.
	slices.SortStableFunc(steps, func(a, b plan.Step) int {
		if d := a.Wave() - b.Wave(); d != 0 {
			return d
		}
		return source.CompareKeys(a.Object, b.Object)
	})
}

// prepareScratch applies what others need at admission, such as namespaces, CRDs and
// Services, and waits for the kinds they bring; the plan that is made then has all of its steps.
func (s *Syncer) prepareScratch(ctx context.Context, snapshot *source.Snapshot, made *plan.Plan) (*plan.Plan, error) {
	var ground []plan.Step
	for _, step := range made.Apply {
		if step.Ground() {
			ground = append(ground, step)
		}
	}
	s.cluster.Run(ctx, ground, func(o apply.Outcome) {
		if gk, ok := plan.DefinedKind(o.Step.Manifest); ok && o.Err == nil && o.Step.Object.GroupKind() == plan.CRDKind {
			s.cluster.Kinds.ForgetGroup(gk.Group)
		}
	})
	waitCtx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := wait.PollUntilContextCancel(waitCtx, soonEvery, true, func(ctx context.Context) (bool, error) {
		if err := s.refresh(ctx, snapshot, nil, false); err != nil {
			return false, nil // once more, until the time is over
		}
		made = s.make(ctx, snapshot)
		return made.Coming == 0, nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return made, nil
}
