package manifests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
func (s *Syncer) lose(step Step) bool {
	if step.Action != Prune {
		return false
	}
	switch step.Object.GroupKind() {
	case namespaceKind:
		s.inv.unsettle(func(r Record) bool { return r.Namespace == step.Object.Name })
	case crdKind:
		s.inv.unsettle(func(r Record) bool {
			served, ok := s.kinds.get(r.GroupKind().WithVersion(r.Version))
			return ok && crdKey(served) == step.Object
		})
	default:
		return false
	}
	return true
}

func (s *Syncer) isLeaving(key Key) bool {
	_, leaving := s.inv.leaving[key]
	return leaving
}

// awaitLeaving forgets those deleted objects that are gone for good, or back, and
// finds out what holds the others.
func (s *Syncer) awaitLeaving(ctx context.Context) error {
	now := s.cfg.now()
	pause := laterEvery
	if len(s.inv.leaving) > leavingMany {
		pause *= 10
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.inv.leaving), compareKeys) {
		l, seen := s.leaving[key]
		if seen && now.Before(l.next) {
			continue
		}
		why, gone, err := s.holder(ctx, key)
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
		s.inv.left(key)
		if _, group, ok := strings.Cut(key.Name, "."); ok && key.GroupKind() == crdKind {
			s.kinds.forgetGroup(group)
		}
	}
	return nil
}

// holder says what keeps a deleted object, as far as the API server tells.
func (s *Syncer) holder(ctx context.Context, key Key) (why string, gone bool, err error) {
	served, ok, err := s.kinds.anyVersion(ctx, key.GroupKind().WithVersion(s.inv.leaving[key]))
	switch {
	case isAnswer(err):
		return err.Error(), false, nil
	case err != nil || !ok:
		return "", true, err
	}
	meta, err := s.executor.resource(served, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", true, nil
	case isAnswer(err):
		return err.Error(), false, nil
	case err != nil:
		return "", false, err
	case meta.DeletionTimestamp == nil:
		return "", true, nil // another one of this name
	case key.GroupKind() == namespaceKind:
		return s.kinds.namespaceHolder(ctx, key.Name), false, nil
	case len(meta.Finalizers) > 0:
		return "its finalizers have not been removed: " + strings.Join(meta.Finalizers, ", "), false, nil
	}
	return "", false, nil
}

// leavingList is what is still there of what was deleted at least age ago.
func (s *Syncer) leavingList(age time.Duration) []Fault {
	var list []Fault
	for _, key := range slices.SortedFunc(maps.Keys(s.inv.leaving), compareKeys) {
		l := s.leaving[key]
		if age > 0 && (l.since.IsZero() || s.cfg.now().Sub(l.since) < age) {
			continue
		}
		message := "was deleted, and is not gone yet"
		if l.why != "" {
			message += ": " + oneLine(l.why)
		}
		list = append(list, Fault{Object: key.String(), Message: message})
	}
	return list
}
