package manifests

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listFrom is the number of objects of a kind from which one list is cheaper
// than asking for each.
const listFrom = 8

// Drift is an object that is not as its manifest made it. It is an immutable
// value.
type Drift struct {
	Object string `json:"object"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	// What is "deleted", or "changed by" and the field manager.
	What string `json:"what"`
}

func (d Drift) String() string {
	return Fault{File: d.File, Line: d.Line, Object: d.Object, Message: d.What}.Error()
}

// findDrift compares who owns the fields of records' objects with who did after
// they were applied. Records of lost objects, those whose kind or namespace is gone, come
// apart.
func (s *Syncer) findDrift(ctx context.Context, records []Record) (drift map[Key]string, lost []Key, err error) {
	drift = map[Key]string{}
	byKind := map[schema.GroupVersionKind][]Record{}
	var gvks []schema.GroupVersionKind
	for _, r := range records {
		if r.Hash == "" {
			continue
		}
		gvk := r.GroupKind().WithVersion(r.Version)
		if byKind[gvk] == nil {
			gvks = append(gvks, gvk)
		}
		byKind[gvk] = append(byKind[gvk], r)
	}
	if err := s.kinds.ensure(ctx, gvks); err != nil {
		return nil, nil, err
	}
	missing := map[string][]Key{} // by namespace
	for _, gvk := range gvks {
		served, ok := s.kinds.get(gvk)
		if !ok && s.kinds.silence(gvk.GroupVersion()) != "" {
			continue // they may be there
		}
		if !ok {
			for _, r := range byKind[gvk] {
				lost = append(lost, r.Key)
			}
			continue
		}
		live, gone, err := s.fetch(ctx, served, byKind[gvk])
		if isAnswer(err) {
			// Of this kind nothing can be known now; an apply says why.
			s.cfg.Log.Debug("look for changes by others", "kind", gvk, "error", err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if gone {
			s.kinds.forget(gvk.GroupVersion())
		}
		for _, r := range byKind[gvk] {
			meta := live[r.Key]
			switch {
			case gone:
				lost = append(lost, r.Key)
			case meta == nil && r.Namespace != "":
				missing[r.Namespace] = append(missing[r.Namespace], r.Key)
			case meta == nil:
				drift[r.Key] = "deleted"
			case meta.DeletionTimestamp != nil:
				drift[r.Key] = "being deleted"
			case ownFields(meta.ManagedFields) != r.Fields:
				drift[r.Key] = "changed by " + lastWriter(meta.ManagedFields)
			}
		}
	}
	for namespace, keys := range missing {
		exists, err := s.namespaceExists(ctx, namespace)
		if err != nil {
			return nil, nil, err
		}
		if !exists {
			lost = append(lost, keys...)
			continue
		}
		for _, key := range keys {
			drift[key] = "deleted"
		}
	}
	return drift, lost, nil
}

// fetch gets the metadata of records, which are all of one kind; gone says that
// the server does not know the kind.
func (s *Syncer) fetch(ctx context.Context, served kind, records []Record) (live map[Key]*metav1.PartialObjectMetadata, gone bool, err error) {
	live = map[Key]*metav1.PartialObjectMetadata{}
	if len(records) >= listFrom {
		list, err := s.client.Resource(served.gvr).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, isKindGone(err), ignoreGone(err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			key := records[0].Key
			key.Namespace, key.Name = item.Namespace, item.Name
			live[key] = item
		}
		return live, false, nil
	}
	results := make([]*metav1.PartialObjectMetadata, len(records))
	g, gctx := errgroup.WithContext(ctx)
	for i, r := range records {
		g.Go(func() error {
			meta, err := s.executor.resource(served, r.Namespace).Get(gctx, r.Name, metav1.GetOptions{})
			if isKindGone(err) || !apierrors.IsNotFound(err) && err != nil {
				return err
			}
			if err == nil {
				results[i] = meta
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, isKindGone(err), ignoreGone(err)
	}
	for i, r := range records {
		if results[i] != nil {
			live[r.Key] = results[i]
		}
	}
	return live, false, nil
}

func ignoreGone(err error) error {
	if isKindGone(err) {
		return nil
	}
	return fmt.Errorf("look for changes by others: %w", err)
}

// lastWriter is the newest other field manager.
func lastWriter(managed []metav1.ManagedFieldsEntry) string {
	var newest metav1.ManagedFieldsEntry
	for _, entry := range managed {
		if entry.Manager == FieldManager || entry.Subresource == "status" || entry.Time == nil {
			continue
		}
		if newest.Time == nil || newest.Time.Before(entry.Time) {
			newest = entry
		}
	}
	if newest.Manager == "" {
		return "an unknown writer"
	}
	return newest.Manager
}

// putBack makes the next plan apply those matching records whose objects have drifted.
func (s *Syncer) putBack(ctx context.Context, match func(Record) bool) error {
	var records []Record
	for _, r := range s.inv.records {
		if match(r) {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil
	}
	drift, lost, err := s.findDrift(ctx, records)
	if err != nil {
		return err
	}
	again := map[Key]bool{}
	for _, key := range lost {
		again[key] = true
	}
	for key := range drift {
		again[key] = true
	}
	s.inv.unsettle(func(r Record) bool { return again[r.Key] })
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
	records := make([]Record, 0, len(s.inv.records))
	for _, r := range s.inv.records {
		records = append(records, r)
	}
	found, lost, err := s.findDrift(ctx, records)
	if err != nil {
		return err
	}
	gone := map[Key]bool{}
	for _, key := range lost {
		gone[key] = true
	}
	s.inv.unsettle(func(r Record) bool { return gone[r.Key] })
	drift := map[Key]Drift{}
	var fresh []Drift
	for key, what := range found {
		d := Drift{Object: key.String(), File: s.shown[key].File, Line: s.shown[key].Line, What: what}
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
