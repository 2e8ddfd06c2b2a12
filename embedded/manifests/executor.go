package manifests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// The kubelet leaves the status of a pod with this annotation to others.
const (
	statusAnnotation = "lite.linkerd.io/status"
	statusManual     = "manual"
)

// executor sends the steps of plans.
type executor struct {
	client  metadata.Interface
	kinds   *kinds
	owners  map[schema.GroupKind]string
	workers int
	// dryRun sends everything, and changes nothing.
	dryRun bool
}

// outcome is what became of a step. It is an immutable value.
type outcome struct {
	step Step
	// record is the new one after a successful apply.
	record Record
	// err is a problem of this step; partial says that the object may have changed all the
	// same.
	err     error
	partial bool
	// warnings are the server's; ignoredStatus names the part whose the status is.
	warnings      []string
	ignoredStatus string
	// sharedWith is the other manager because of whom the object was not deleted.
	sharedWith string
	// leaving says that the object was deleted, and is not gone before others have agreed.
	leaving bool
}

// run executes steps that are sorted by wave, and calls done for each, one at a
// time. It stops early when ctx ends.
func (x *executor) run(ctx context.Context, steps []Step, done func(outcome)) {
	var mu sync.Mutex
	for len(steps) > 0 && ctx.Err() == nil {
		n := slices.IndexFunc(steps, func(s Step) bool { return wave(s.Object) != wave(steps[0].Object) })
		if n < 0 {
			n = len(steps)
		}
		var g errgroup.Group
		g.SetLimit(x.workers)
		for _, step := range steps[:n] {
			g.Go(func() error {
				if ctx.Err() != nil {
					return nil
				}
				result := x.step(ctx, step)
				mu.Lock()
				defer mu.Unlock()
				done(result)
				return nil
			})
		}
		_ = g.Wait() // errors are in the outcomes
		steps = steps[n:]
	}
}

func (x *executor) step(ctx context.Context, step Step) outcome {
	sink := &warnings{}
	ctx = context.WithValue(ctx, sinkKey{}, sink)
	result := outcome{step: step}
	switch step.Action {
	case Apply:
		x.apply(ctx, &result)
	default:
		result.err = x.remove(ctx, &result)
	}
	result.warnings = sink.list()
	return result
}

func (x *executor) apply(ctx context.Context, result *outcome) {
	step := result.step
	hasStatus := saysSomething(step.Object.GroupKind(), step.object.Object["status"])
	owner := ""
	if hasStatus && step.kind.status {
		if owner = x.owners[step.Object.GroupKind()]; owner != "" {
			hasStatus, result.ignoredStatus = false, owner
		}
	}
	separate := step.kind.status
	body := x.body(step, separate, hasStatus && separate)
	meta, err := x.applyPatch(ctx, step, body)
	if err != nil {
		result.err = err
		return
	}
	result.record = Record{
		Key: step.Object, Version: step.gvk.Version, File: step.path, Hash: step.hash,
		Fields: ownFields(meta.ManagedFields), HasStatus: hasStatus && separate,
	}
	if meta.DeletionTimestamp != nil {
		result.err, result.partial = errDeleting, true
		return
	}
	if !result.record.HasStatus && !step.before.HasStatus || !separate {
		return
	}
	if x.dryRun && step.before.Hash == "" {
		return // there is no object yet whose status could be tried
	}
	status := map[string]any{
		"apiVersion": step.object.GetAPIVersion(),
		"kind":       step.object.GetKind(),
		"metadata":   map[string]any{"name": step.Object.Name},
	}
	if result.record.HasStatus {
		status["status"] = step.object.Object["status"]
	} // else what was applied before is given up
	if _, err := x.applyPatch(ctx, step, status, "status"); err != nil {
		result.err, result.partial = fmt.Errorf("apply status: %w", err), true
	}
}

// body is the object as it is sent, without what is sent apart.
func (x *executor) body(step Step, dropStatus, ownStatus bool) map[string]any {
	body := maps.Clone(step.object.Object)
	if dropStatus {
		delete(body, "status")
	}
	metadata := maps.Clone(body["metadata"].(map[string]any))
	body["metadata"] = metadata
	delete(metadata, "namespace")
	if step.Object.Namespace != "" {
		metadata["namespace"] = step.Object.Namespace
	}
	if ownStatus && step.Object.GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		annotations, _ := metadata["annotations"].(map[string]any)
		if _, has := annotations[statusAnnotation]; !has {
			annotations = maps.Clone(annotations)
			if annotations == nil {
				annotations = map[string]any{}
			}
			annotations[statusAnnotation] = statusManual
			metadata["annotations"] = annotations
		}
	}
	return body
}

func (x *executor) patch(ctx context.Context, step Step, body map[string]any, sub ...string) (*metav1.PartialObjectMetadata, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict, Force: &force, DryRun: x.dryRunOption()}
	return x.resource(step.kind, step.Object.Namespace).Patch(ctx, step.Object.Name, types.ApplyPatchType, data, options, sub...)
}

func (x *executor) dryRunOption() []string {
	if x.dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (x *executor) resource(k kind, namespace string) metadata.ResourceInterface {
	resource := x.client.Resource(k.gvr)
	if namespace == "" {
		return resource
	}
	return resource.Namespace(namespace)
}

// remove deletes, restores or releases.
func (x *executor) remove(ctx context.Context, result *outcome) error {
	step := result.step
	served, ok, err := x.kinds.anyVersion(ctx, step.gvk)
	if err != nil {
		return err
	}
	if !ok {
		return nil // the objects went with their kind
	}
	step.kind = served
	if step.Action == Restore {
		return ignoreNotFound(x.restore(ctx, step))
	}
	resource := x.resource(served, step.Object.Namespace)
	live, err := resource.Get(ctx, step.Object.Name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	if other := otherApplier(live.ManagedFields); step.Action == Release || other != "" {
		result.sharedWith = other
		return ignoreNotFound(x.release(ctx, step))
	}
	background := metav1.DeletePropagationBackground
	result.leaving = len(live.Finalizers) > 0 || step.Object.GroupKind() == namespaceKind || step.Object.GroupKind() == crdKind
	return ignoreNotFound(resource.Delete(ctx, step.Object.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, DryRun: x.dryRunOption(), Preconditions: &metav1.Preconditions{UID: &live.UID},
	}))
}

// release gives up what we own, by an apply that names no field.
func (x *executor) release(ctx context.Context, step Step) error {
	_, err := x.patch(ctx, step, map[string]any{
		"apiVersion": step.kind.gvr.GroupVersion().String(),
		"kind":       step.gvk.Kind,
		"metadata":   map[string]any{"name": step.Object.Name},
	})
	return err
}

// restore replaces what the object has by what its base has, in the name of the base's manager
// and with no trace of ours: that part goes on as if no manifest had been there.
func (x *executor) restore(ctx context.Context, step Step) error {
	object := step.object.Object
	var patch []jsonOperation
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			patch = append(patch, jsonOperation{"add", "/" + name, object[name]})
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		value, _ := metadata[name].(map[string]any)
		patch = append(patch, jsonOperation{"add", "/metadata/" + name, value})
	}
	// With no entry at all the server would not record who makes this change.
	patch = append(patch, jsonOperation{"add", "/metadata/managedFields", []metav1.ManagedFieldsEntry{{
		Manager: step.manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: step.object.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{}}}`),
	}}})
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err = x.resource(step.kind, step.Object.Namespace).Patch(ctx, step.Object.Name, types.JSONPatchType, data,
		metav1.PatchOptions{FieldManager: step.manager, DryRun: x.dryRunOption()})
	return err
}

// otherApplier is the name of another manager that applied the object, who still
// wants it then.
func otherApplier(managed []metav1.ManagedFieldsEntry) string {
	for _, entry := range managed {
		if entry.Manager != FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return entry.Manager
		}
	}
	return ""
}

// ownFields is a hash of the fields that we own apart from the status.
func ownFields(managed []metav1.ManagedFieldsEntry) string {
	for _, entry := range managed {
		if entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && entry.FieldsV1 != nil {
			sum := sha256.Sum256(entry.FieldsV1.GetRawBytes())
			return hex.EncodeToString(sum[:8])
		}
	}
	return ""
}

// fieldLine is the line of a field of the object that begins on line of a file,
// or line itself.
func fieldLine(path string, line int, field string) int {
	if line == 0 || field == "" {
		return line
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxFile {
		return line
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return line
	}
	return locate(data, line, field)
}

type sinkKey struct{}

// warnings collects those of the API server for one step.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}

// warningHandler leads a warning to the step whose request caused it.
type warningHandler struct{}

func (warningHandler) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	sink, ok := ctx.Value(sinkKey{}).(*warnings)
	if !ok || code != 299 || text == "" {
		return
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	if !slices.Contains(sink.text, text) {
		sink.text = append(sink.text, text)
	}
}
