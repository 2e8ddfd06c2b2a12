package apply

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// listFrom is the number of objects of a kind from which one list is cheaper
// than asking for each.
const listFrom = 8

const beingDeleted = "being deleted"

// FindDrift compares who owns the fields of records' objects with who did after
// they were applied. Records of lost objects, those whose kind or namespace is gone, come
// apart.
func (c *Cluster) FindDrift(ctx context.Context, records []plan.Record) (drift map[source.Key]string, lost []source.Key, err error) {
	drift = map[source.Key]string{}
	byKind := map[schema.GroupVersionKind][]plan.Record{}
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
	if err := c.Kinds.Ensure(ctx, gvks); err != nil {
		return nil, nil, err
	}
	missing := map[string][]source.Key{} // by namespace
	for _, gvk := range gvks {
		served, ok := c.Kinds.Get(gvk)
		if !ok && c.Kinds.Silence(gvk.GroupVersion()) != "" {
			continue // they may be there
		}
		if !ok {
			for _, r := range byKind[gvk] {
				lost = append(lost, r.Key)
			}
			continue
		}
		live, gone, err := c.fetch(ctx, served, byKind[gvk])
		if isAnswer(err) {
			// Of this kind nothing can be known now; an apply says why.
			c.log.Debug("look for changes by others", "kind", gvk, "error", err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if gone {
			c.Kinds.Forget(gvk.GroupVersion())
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
				drift[r.Key] = beingDeleted
			case ownFields(meta.ManagedFields) != r.Fields:
				if writer := lastWriter(meta.ManagedFields); writer != "" {
					drift[r.Key] = "changed by " + writer
				}
			}
		}
	}
	for namespace, keys := range missing {
		exists, err := c.NamespaceExists(ctx, namespace)
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
func (c *Cluster) fetch(ctx context.Context, served plan.Kind, records []plan.Record) (live map[source.Key]*metav1.PartialObjectMetadata, gone bool, err error) {
	live = map[source.Key]*metav1.PartialObjectMetadata{}
	if len(records) >= listFrom {
		list, err := c.client.Resource(served.GVR).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
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
	g, gctx := lifecycle.NewGroup(ctx)
	for i, r := range records {
		g.Go("read of "+r.Key.String(), func() error {
			meta, err := c.resource(served, r.Namespace).Get(gctx, r.Name, metav1.GetOptions{})
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

// isOurs reports whether a field manager is a part of this program, which has Kubernetes' controllers. What
// these have changed is as it should be, and they would change it again.
func isOurs(manager string) bool {
	return strings.HasPrefix(manager, "linkerd-lite") || manager == "kube-controller-manager"
}

// CanPutBack reports whether an apply of the manifest helps: what is being deleted has to go first.
func CanPutBack(what string) bool { return what != beingDeleted }

// lastWriter is the newest other field manager that has written since our apply, which took all
// fields back; empty if it can only be a part of this program.
func lastWriter(managed []metav1.ManagedFieldsEntry) string {
	var applied, newest metav1.ManagedFieldsEntry
	for _, entry := range managed {
		if isApplied(entry) {
			applied = entry
		}
	}
	ours := false
	for _, entry := range managed {
		switch {
		case entry.Manager == FieldManager, entry.Subresource == "status", entry.Time.Before(applied.Time):
		case isOurs(entry.Manager):
			ours = true
		case newest.Time == nil || newest.Time.Before(entry.Time): // entries of scale have no time
			newest = entry
		}
	}
	switch {
	case newest.Manager != "":
		return newest.Manager
	case ours:
		return ""
	}
	return "an unknown writer"
}
