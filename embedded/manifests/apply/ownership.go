package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	if err := c.setOwners(ctx, step, live, owners); err != nil {
		return nil, fmt.Errorf("move the owners of fields to version %s: %w", step.GVK.Version, err)
	}
	return c.patch(ctx, step, body, sub...)
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

// setOwners replaces the owners of an object's fields, unless it has changed since live.
func (c *Cluster) setOwners(ctx context.Context, step plan.Step, live *metav1.PartialObjectMetadata, owners []metav1.ManagedFieldsEntry) error {
	data, err := json.Marshal([]jsonOperation{
		{"replace", "/metadata/managedFields", owners},
		{"replace", "/metadata/resourceVersion", live.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err = c.resource(step.Kind, step.Object.Namespace).Patch(ctx, step.Object.Name, types.JSONPatchType, data,
		metav1.PatchOptions{FieldManager: FieldManager})
	return err
}
