package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// The kubelet leaves the status of a pod with this annotation to others.
const (
	statusAnnotation = "lite.linkerd.io/status"
	statusManual     = "manual"
)

// Outcome is what became of a step. It is an immutable value.
type Outcome struct {
	Step plan.Step
	// Record is the new one after a successful apply.
	Record plan.Record
	// Err is a problem of this step; Partial says that the object may have changed all the
	// same.
	Err     error
	Partial bool
	// Warnings are the server's; IgnoredStatus names the part whose the status is.
	Warnings      []string
	IgnoredStatus string
	// SharedWith is the other manager because of whom the object was not deleted.
	SharedWith string
	// Leaving says that the object was deleted, and is not gone before others have agreed.
	Leaving bool
}

// Run executes steps that are sorted by wave, and calls done for each, one at a
// time. It stops early when ctx ends.
func (c *Cluster) Run(ctx context.Context, steps []plan.Step, done func(Outcome)) {
	var mu sync.Mutex
	for len(steps) > 0 && ctx.Err() == nil {
		n := slices.IndexFunc(steps, func(s plan.Step) bool { return s.Wave() != steps[0].Wave() })
		if n < 0 {
			n = len(steps)
		}
		var g lifecycle.Group
		g.SetLimit(c.workers)
		var judges []plan.Step // guarded by mu
		for _, step := range steps[:n] {
			g.Go(step.String(), func() error {
				if ctx.Err() != nil {
					return nil
				}
				result := c.step(ctx, step)
				mu.Lock()
				defer mu.Unlock()
				if result.Err == nil && step.Action == plan.Apply && step.Judges() {
					judges = append(judges, step)
				}
				done(result)
				return nil
			})
		}
		// Errors are in the outcomes: this is a panic, and no business of the next step.
		if err := g.Wait(); err != nil {
			panic(err)
		}
		if len(judges) > 0 && !c.dryRun {
			c.awaken(ctx, judges)
		}
		steps = steps[n:]
	}
}

func (c *Cluster) step(ctx context.Context, step plan.Step) Outcome {
	sink := &warnings{}
	ctx = context.WithValue(ctx, sinkKey{}, sink)
	result := Outcome{Step: step}
	switch step.Action {
	case plan.Apply:
		c.apply(ctx, &result)
	default:
		result.Err = c.remove(ctx, &result)
	}
	// What the API server says of the same is more exact.
	if said := sink.list(); len(said) > 0 {
		result.Warnings = said
	}
	return result
}

func (c *Cluster) apply(ctx context.Context, result *Outcome) {
	step := result.Step
	hasStatus := saysSomething(step.Object.GroupKind(), step.Manifest.Object["status"])
	owner := ""
	if hasStatus && step.Kind.Status {
		if owner = c.owners[step.Object.GroupKind()]; owner != "" {
			hasStatus, result.IgnoredStatus = false, owner
		}
	}
	separate := step.Kind.Status
	body := c.body(step, separate, hasStatus && separate)
	meta, err := c.applyPatch(ctx, step, body)
	if lists, ok := repeatedIn(err); ok {
		meta, err = c.applyRepeated(ctx, step, body, lists)
		result.Warnings = repeatedWarnings(lists)
	}
	if err != nil {
		result.Err = err
		return
	}
	result.Record = plan.Record{
		Key: step.Object, Version: step.GVK.Version, File: step.Path, Hash: step.Hash,
		Fields: ownFields(meta.ManagedFields), HasStatus: hasStatus && separate,
	}
	if meta.DeletionTimestamp != nil {
		result.Err, result.Partial = errDeleting, true
		return
	}
	if !result.Record.HasStatus && !step.Before.HasStatus || !separate {
		return
	}
	if c.dryRun && step.Before.Hash == "" {
		return // there is no object yet whose status could be tried
	}
	status := map[string]any{
		"apiVersion": step.Manifest.GetAPIVersion(),
		"kind":       step.Manifest.GetKind(),
		"metadata":   map[string]any{"name": step.Object.Name},
	}
	if result.Record.HasStatus {
		status["status"] = step.Manifest.Object["status"]
	} // else what was applied before is given up
	if _, err := c.applyPatch(ctx, step, status, "status"); err != nil {
		result.Err, result.Partial = fmt.Errorf("apply status: %w", err), true
	}
}

// body is the object as it is sent, without what is sent apart.
func (c *Cluster) body(step plan.Step, dropStatus, ownStatus bool) map[string]any {
	body := maps.Clone(step.Manifest.Object)
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

func (c *Cluster) patch(ctx context.Context, step plan.Step, body map[string]any, sub ...string) (*metav1.PartialObjectMetadata, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict, Force: &force, DryRun: c.dryRunOption()}
	return c.resource(step.Kind, step.Object.Namespace).Patch(ctx, step.Object.Name, types.ApplyPatchType, data, options, sub...)
}

func (c *Cluster) dryRunOption() []string {
	if c.dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (c *Cluster) resource(k plan.Kind, namespace string) metadata.ResourceInterface {
	resource := c.client.Resource(k.GVR)
	if namespace == "" {
		return resource
	}
	return resource.Namespace(namespace)
}

// remove deletes, restores or releases.
func (c *Cluster) remove(ctx context.Context, result *Outcome) error {
	step := result.Step
	served, ok, err := c.Kinds.anyVersion(ctx, step.GVK)
	if err != nil {
		return err
	}
	if !ok {
		return nil // the objects went with their kind
	}
	step.Kind = served
	if step.Action == plan.Restore {
		return ignoreNotFound(c.restore(ctx, step))
	}
	resource := c.resource(served, step.Object.Namespace)
	live, err := resource.Get(ctx, step.Object.Name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	if other := otherApplier(live.ManagedFields); step.Action == plan.Release || other != "" {
		result.SharedWith = other
		return ignoreNotFound(c.release(ctx, step))
	}
	background := metav1.DeletePropagationBackground
	result.Leaving = len(live.Finalizers) > 0 || step.Object.GroupKind() == plan.NamespaceKind || step.Object.GroupKind() == plan.CRDKind
	return ignoreNotFound(resource.Delete(ctx, step.Object.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, DryRun: c.dryRunOption(), Preconditions: &metav1.Preconditions{UID: &live.UID},
	}))
}

// release gives up what we own, by an apply that names no field.
func (c *Cluster) release(ctx context.Context, step plan.Step) error {
	_, err := c.patch(ctx, step, map[string]any{
		"apiVersion": step.Kind.GVR.GroupVersion().String(),
		"kind":       step.GVK.Kind,
		"metadata":   map[string]any{"name": step.Object.Name},
	})
	return err
}

// restore replaces what the object has by what its base has, in the name of the base's manager
// and with no trace of ours: that part goes on as if no manifest had been there.
func (c *Cluster) restore(ctx context.Context, step plan.Step) error {
	object := step.Manifest.Object
	own := map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": map[string]any{"name": step.Object.Name}}
	var patch []jsonOperation
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			own[name] = object[name]
			patch = append(patch, jsonOperation{"add", "/" + name, object[name]})
		}
	}
	// Finalizers and owners are of several: an apply without them takes back the manifest's alone.
	if _, err := c.patch(ctx, step, own); err != nil {
		return err
	}
	metadata, _ := object["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		value, _ := metadata[name].(map[string]any)
		patch = append(patch, jsonOperation{"add", "/metadata/" + name, value})
	}
	// With no entry at all the server would not record who makes this change.
	patch = append(patch, jsonOperation{"add", "/metadata/managedFields", []metav1.ManagedFieldsEntry{{
		Manager: step.Manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: step.Manifest.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{}}}`),
	}}})
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err = c.resource(step.Kind, step.Object.Namespace).Patch(ctx, step.Object.Name, types.JSONPatchType, data,
		metav1.PatchOptions{FieldManager: step.Manager, DryRun: c.dryRunOption()})
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
	var fields []byte
	for _, of := range []func(metav1.ManagedFieldsEntry) bool{isApplied, isUpdated} {
		for _, entry := range managed {
			if of(entry) && entry.FieldsV1 != nil {
				fields = append(fields, entry.FieldsV1.GetRawBytes()...)
			}
		}
	}
	if fields == nil {
		return ""
	}
	sum := sha256.Sum256(fields)
	return hex.EncodeToString(sum[:8])
}

// isApplied reports whether an entry has the fields that we own apart from the status.
func isApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// isUpdated reports whether an entry has what server-side apply could not write for us.
func isUpdated(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
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

func (w *warnings) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = nil
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
