package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
)

// repeated is a list of a manifest in which a key is there more than once, such as
// that of a container's ports with two names for one port. Kubernetes stores such
// lists, but server-side apply takes none (kubernetes/kubernetes#113482). It is an
// immutable value.
type repeated struct {
	list fieldpath.Path
	// key is one that is repeated; it tells which fields make a key.
	key fieldpath.PathElement
}

const repeatedKey = ": duplicate entries for key "

// repeatedIn reads which lists an error of server-side apply is about; ok is false if
// it has other reasons too.
func repeatedIn(err error) (lists []repeated, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !typedPrefix.MatchString(status.Status().Message) {
		return nil, false
	}
	message := strings.TrimPrefix(typedPrefix.ReplaceAllString(status.Status().Message, ""), "errors:\n")
	for line := range strings.Lines(message) {
		list, key, found := strings.Cut(strings.TrimSpace(line), repeatedKey)
		if !found {
			return nil, false
		}
		path, err := parseFieldPath(list)
		if err != nil || len(path) == 0 || path[len(path)-1].FieldName == nil {
			return nil, false
		}
		element, err := parseFieldPath(key)
		if err != nil || len(element) != 1 || element[0].FieldName != nil {
			return nil, false
		}
		lists = append(lists, repeated{path, element[0]})
	}
	return lists, true
}

func (r repeated) String() string { return strings.TrimPrefix(r.list.String(), ".") + r.key.String() }

func (r repeated) entries(object map[string]any) []any {
	list, _ := parentOf(object, r.list)[r.field()].([]any)
	return list
}

func (r repeated) field() string { return *r.list[len(r.list)-1].FieldName }

func (r repeated) elements(entries []any) fieldpath.PathElementSet {
	var set fieldpath.PathElementSet
	for _, entry := range entries {
		set.Insert(elementOf(entry, r.key))
	}
	return set
}

// write replaces the list in an object by that of a manifest, and leaves what others own.
func (r repeated) write(object, manifest map[string]any, others *fieldpath.Set) {
	parent, wanted := parentOf(object, r.list), r.entries(manifest)
	if parent == nil {
		return // the API server says what it thinks of the rest
	}
	theirs := others
	for _, step := range r.list {
		theirs = theirs.WithPrefix(step)
	}
	ours := r.elements(wanted)
	result := slices.Clone(wanted)
	for _, entry := range r.entries(object) {
		element := elementOf(entry, r.key)
		if !ours.Has(element) && (theirs.Has(fieldpath.Path{element}) || !theirs.WithPrefix(element).Empty()) {
			result = append(result, entry)
		}
	}
	parent[r.field()] = result
}

// applyRepeated applies an object with such lists.
//
//  1. An object that is not there yet is created as it is written. Otherwise a trial
//     of the apply without the lists says what the object becomes, and that is
//     written, with the lists as the manifest has them.
//  2. Owners are those of such a trial, and the lists' entries are ours as of an
//     update. Later applies leave them alone then; one of a manifest that repeats
//     nothing any more takes them over (takeOver).
func (c *Cluster) applyRepeated(ctx context.Context, step plan.Step, body map[string]any, lists []repeated) (*metav1.PartialObjectMetadata, error) {
	client := c.whole(step)
	rest := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(body)}
	for _, r := range lists {
		delete(parentOf(rest.Object, r.list), r.field())
	}
	stored, err := client.Get(ctx, step.Object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		stored, err = client.Create(ctx, &unstructured.Unstructured{Object: body}, metav1.CreateOptions{
			FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: c.dryRunOption(),
		})
	case err == nil:
		stored, err = c.updateRepeated(ctx, client, stored, rest, body, lists)
	}
	if err != nil {
		return nil, err
	}
	if c.dryRun {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: stored.GetManagedFields()}}, nil
	}
	var meta *metav1.PartialObjectMetadata
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // controllers are at work on it by now
		trial, err := client.Apply(ctx, step.Object.Name, rest, trialOptions)
		if err != nil {
			return fmt.Errorf("find out which fields are ours: %w", err)
		}
		owners, err := repeatedOwners(trial.GetManagedFields(), step.Manifest.GetAPIVersion(), body, lists)
		if err != nil {
			return err
		}
		meta, err = c.setOwners(ctx, step, trial.GetResourceVersion(), owners)
		return err
	})
	return meta, err
}

var trialOptions = metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}}

func (c *Cluster) updateRepeated(ctx context.Context, client dynamic.ResourceInterface, before, rest *unstructured.Unstructured, body map[string]any, lists []repeated) (*unstructured.Unstructured, error) {
	object, err := client.Apply(ctx, rest.GetName(), rest, trialOptions)
	if err != nil {
		return nil, err
	}
	others := &fieldpath.Set{}
	for _, entry := range before.GetManagedFields() {
		if entry.Manager != FieldManager && entry.FieldsV1 != nil {
			var set fieldpath.Set
			if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
				return nil, fmt.Errorf("read owned fields: %w", err)
			}
			others = others.Union(&set)
		}
	}
	for _, r := range lists {
		r.write(object.Object, body, others)
	}
	return client.Update(ctx, object, metav1.UpdateOptions{
		FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: c.dryRunOption(),
	})
}

// repeatedOwners returns entries in which our updates own the entries of the lists and nothing else.
func repeatedOwners(entries []metav1.ManagedFieldsEntry, version string, body map[string]any, lists []repeated) ([]metav1.ManagedFieldsEntry, error) {
	fields := &fieldpath.Set{}
	for _, r := range lists {
		for _, entry := range r.entries(body) {
			fields.Insert(append(r.list.Copy(), elementOf(entry, r.key)))
		}
	}
	data, err := fields.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write owned fields: %w", err)
	}
	now := metav1.Now()
	owners := slices.DeleteFunc(slices.Clone(entries), isUpdated)
	return append(owners, metav1.ManagedFieldsEntry{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(data)),
	}), nil
}

// whole has the objects of a step's kind and namespace with all that they have.
func (c *Cluster) whole(step plan.Step) dynamic.ResourceInterface {
	resource := c.objects.Resource(step.Kind.GVR)
	if step.Object.Namespace == "" {
		return resource
	}
	return resource.Namespace(step.Object.Namespace)
}

// repeatedWarnings say what is repeated.
func repeatedWarnings(lists []repeated) []string {
	var warnings []string
	for _, r := range lists {
		warnings = append(warnings, fmt.Sprintf("%s is there more than once: applied as it is written, but kubectl apply may drop all but one", r))
	}
	return slices.Compact(warnings)
}
