package manifests

import (
	"context"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// refresh asks the API server for what the plan depends on.
func (s *Syncer) refresh(ctx context.Context, snapshot *source.Snapshot, saved map[string]bool, first bool) error {
	if err := s.awaitLeaving(ctx); err != nil {
		return err
	}
	var gvks []schema.GroupVersionKind
	for _, src := range snapshot.Sources {
		for _, o := range src.Objects {
			gvk := o.Unstructured.GroupVersionKind()
			if _, ok := s.cluster.Kinds.Get(gvk); !ok {
				gvks = append(gvks, gvk)
			}
		}
	}
	if err := s.cluster.Kinds.Ensure(ctx, gvks); err != nil {
		return err
	}
	if err := s.awaitNamespaces(ctx); err != nil {
		return err
	}
	if first {
		// A process that was killed while it applied a change has not recorded it. If
		// the change was undone meanwhile, the record would look right.
		for _, src := range snapshot.Sources {
			if src.Changed.After(s.inv.Written) {
				s.inv.Unsettle(func(r plan.Record) bool { return r.File == src.Path })
			}
		}
		return s.putBack(ctx, func(plan.Record) bool { return true })
	}
	if len(saved) == 0 {
		return nil
	}
	hashes := map[source.Key]string{}
	for path := range saved {
		src := snapshot.Source(path)
		if src == nil {
			continue
		}
		for _, o := range src.Objects {
			hashes[s.keyOf(o)] = o.Hash
		}
	}
	return s.putBack(ctx, func(r plan.Record) bool { return saved[r.File] && hashes[r.Key] == r.Hash })
}

// keyOf is the key of an object, with the namespace that its kind's scope gives it.
func (s *Syncer) keyOf(o source.Object) source.Key {
	served, known := s.cluster.Kinds.Get(o.Unstructured.GroupVersionKind())
	return plan.Scoped(o.Key(), served, known)
}

// awaitNamespaces makes those objects due again whose namespace has appeared.
func (s *Syncer) awaitNamespaces(ctx context.Context) error {
	exists := map[string]bool{}
	now := s.cfg.now()
	for key, failed := range s.failures {
		if failed.Namespace == "" || now.Before(failed.Next) {
			continue
		}
		there, asked := exists[failed.Namespace]
		if !asked {
			var err error
			if there, err = s.cluster.NamespaceExists(ctx, failed.Namespace); err != nil {
				return err
			}
			exists[failed.Namespace] = there
		}
		if there {
			delete(s.failures, key)
			continue
		}
		failed.Next = now.Add(laterEvery)
		s.failures[key] = failed
	}
	return nil
}

// input gathers what a plan depends on.
func (s *Syncer) input(ctx context.Context, snapshot *source.Snapshot) plan.Input {
	in := plan.Input{
		Now: s.cfg.now(), Sources: snapshot.Sources, Faults: snapshot.Faults, Notices: snapshot.Notices,
		Records: s.inv.Records, Failures: s.failures, Base: s.base,
		Kinds: map[schema.GroupVersionKind]plan.Kind{}, Unknown: map[schema.GroupVersionKind]string{},
		Places: map[string]source.Place{}, Leaving: map[source.Key]bool{}, Owned: map[source.Key]plan.Ownership{},
	}
	own := func(key source.Key) {
		if owned := s.cfg.Owned(key.GroupKind(), key.Namespace, key.Name); owned != plan.Free {
			in.Owned[key] = owned
		}
	}
	for key := range s.inv.Leaving {
		in.Leaving[key] = true
	}
	for _, src := range snapshot.Sources {
		for _, o := range src.Objects {
			own(s.keyOf(o))
			gvk := o.Unstructured.GroupVersionKind()
			if _, ok := in.Kinds[gvk]; ok || in.Unknown[gvk] != "" {
				continue
			}
			served, known := s.cluster.Kinds.Get(gvk)
			if known && !in.Leaving[plan.CRDKey(served)] {
				in.Kinds[gvk] = served
			} else {
				in.Unknown[gvk] = s.cluster.Kinds.Unknown(ctx, gvk)
			}
		}
	}
	for _, record := range s.inv.Records {
		own(record.Key)
		if _, ok := in.Places[record.File]; !ok {
			in.Places[record.File] = snapshot.Place(record.File)
		}
	}
	return in
}

// make plans, and has the parts look at what is to be applied.
func (s *Syncer) make(ctx context.Context, snapshot *source.Snapshot) *plan.Plan {
	return s.judge(ctx, plan.Make(s.input(ctx, snapshot)), snapshot)
}

// judge moves the steps that a part refuses to Failed.
func (s *Syncer) judge(ctx context.Context, made *plan.Plan, snapshot *source.Snapshot) *plan.Plan {
	judged := *made
	judged.Apply = nil
	for _, step := range made.Apply {
		refused := false
		for _, problem := range s.cfg.Check(step.Manifest, func() map[string]string { return s.labels(ctx, step.Object.Namespace, snapshot) }) {
			problem.File, problem.Line, problem.Object = step.File, fieldLine(snapshot, step, problem.Field), step.Object.Object()
			problem.Message = source.OneLine(problem.Message)
			if problem.Severity == problems.Warning {
				judged.Warnings = append(judged.Warnings, problem)
				continue
			}
			refused = true
			judged.Failed = append(judged.Failed, problem)
		}
		if !refused {
			judged.Apply = append(judged.Apply, step)
		}
	}
	return &judged
}

// fieldLine is the line of a field of a step's object.
func fieldLine(snapshot *source.Snapshot, step plan.Step, field string) int {
	if src := snapshot.Source(step.Path); src != nil {
		return src.FieldLine(step.Line, field)
	}
	return step.Line
}

// warningOf is a warning of the API server, which begins with the field that it is about.
func warningOf(snapshot *source.Snapshot, step plan.Step, text string) problems.Problem {
	field, _, _ := strings.Cut(text, ": ")
	return problems.Problem{File: step.File, Line: fieldLine(snapshot, step, field), Object: step.Object.Object(), Message: text}
}

// labels are those of a namespace, which the directory itself may bring or change.
func (s *Syncer) labels(ctx context.Context, name string, snapshot *source.Snapshot) map[string]string {
	labels := s.cluster.NamespaceLabels(ctx, name)
	for _, src := range snapshot.Sources {
		for _, o := range src.Objects {
			if o.Key() == (source.Key{Kind: plan.NamespaceKind.Kind, Name: name}) {
				maps.Copy(labels, o.Unstructured.GetLabels())
			}
		}
	}
	return labels
}
