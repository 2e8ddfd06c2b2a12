package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
)

type jsonOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// applyPatch is patch, also for objects that were written in another version before.
//
// With each apply the API server reads the object in every version in which somebody owns
// fields of it. A version whose schema lacks a field that the object has by now, be it
// by a default, makes that fail: the object could never be applied in a newer version. Its
// fields have the same names in all versions then, so their owners get the new one.
func (c *Cluster) applyPatch(ctx context.Context, step plan.Step, body map[string]any, sub ...string) (*metav1.PartialObjectMetadata, error) {
	meta, err := c.settledPatch(ctx, step, body, sub...)
	if err == nil && len(sub) == 0 && slices.ContainsFunc(meta.ManagedFields, isUpdated) && !c.dryRun {
		return c.takeOver(ctx, step, body, meta)
	}
	if err == nil || !unreadableInOwnersVersion(err) {
		return meta, err
	}
	live, getErr := c.resource(step.Kind, step.Object.Namespace).Get(ctx, step.Object.Name, metav1.GetOptions{})
	if getErr != nil {
		return nil, err
	}
	owners, moved, moveErr := inVersion(live.ManagedFields, step.Kind.GVR.GroupVersion())
	if moveErr != nil || !moved {
		return nil, err
	}
	if c.dryRun {
		return live, nil // the owners cannot be changed only for the trial
	}
	if _, err := c.setOwners(ctx, step, live.ResourceVersion, owners); err != nil {
		return nil, fmt.Errorf("move the owners of fields to version %s: %w", step.GVK.Version, err)
	}
	return c.patch(ctx, step, body, sub...)
}

// takeOver makes what an earlier manifest had in lists with repeated keys part of what was
// applied: an apply drops of that what the manifest does not have any more.
func (c *Cluster) takeOver(ctx context.Context, step plan.Step, body map[string]any, meta *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	if err := csaupgrade.UpgradeManagedFields(meta, sets.New(FieldManager), FieldManager); err != nil {
		return nil, fmt.Errorf("read owned fields: %w", err)
	}
	if _, err := c.setOwners(ctx, step, meta.ResourceVersion, meta.ManagedFields); err != nil {
		return nil, fmt.Errorf("take over the entries of lists: %w", err)
	}
	if sink, ok := ctx.Value(sinkKey{}).(*warnings); ok {
		sink.forget() // they were about what is taken away now
	}
	return c.patch(ctx, step, body)
}

// unreadableInOwnersVersion reports that the stored object, not the one that is
// applied, does not fit a schema.
func unreadableInOwnersVersion(err error) bool {
	message := err.Error()
	return isAnswer(err) && !typedPrefix.MatchString(message) && (undeclared.MatchString(message) || wrongType.MatchString(message))
}

// inVersion returns entries with those of other versions of gv's group in gv, and whether
// there are such. Entries that become those of the same owner are united.
func inVersion(entries []metav1.ManagedFieldsEntry, gv schema.GroupVersion) (result []metav1.ManagedFieldsEntry, moved bool, err error) {
	type owner struct {
		manager     string
		operation   metav1.ManagedFieldsOperationType
		subresource string
	}
	at := map[owner]int{}
	for _, entry := range entries {
		version, err := schema.ParseGroupVersion(entry.APIVersion)
		if err != nil || version.Group != gv.Group || entry.FieldsV1 == nil {
			result = append(result, entry)
			continue
		}
		moved = moved || version != gv
		entry.APIVersion = gv.String()
		who := owner{entry.Manager, entry.Operation, entry.Subresource}
		i, has := at[who]
		if !has {
			at[who] = len(result)
			result = append(result, entry)
			continue
		}
		if result[i].FieldsV1, err = unite(result[i].FieldsV1, entry.FieldsV1); err != nil {
			return nil, false, err
		}
	}
	return result, moved, nil
}

func unite(a, b *metav1.FieldsV1) (*metav1.FieldsV1, error) {
	all := &fieldpath.Set{}
	for _, fields := range []*metav1.FieldsV1{a, b} {
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(fields.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read owned fields: %w", err)
		}
		all = all.Union(&set)
	}
	data, err := all.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write owned fields: %w", err)
	}
	return metav1.NewFieldsV1(string(data)), nil
}

// setOwners replaces the owners of an object's fields, unless it has changed since a version.
func (c *Cluster) setOwners(ctx context.Context, step plan.Step, version string, owners []metav1.ManagedFieldsEntry) (*metav1.PartialObjectMetadata, error) {
	data, err := json.Marshal([]jsonOperation{
		{"replace", "/metadata/managedFields", owners},
		{"replace", "/metadata/resourceVersion", version},
	})
	if err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	return c.resource(step.Kind, step.Object.Namespace).Patch(ctx, step.Object.Name, types.JSONPatchType, data,
		metav1.PatchOptions{FieldManager: FieldManager})
}
