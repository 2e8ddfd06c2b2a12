package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
)

const (
	// marker is the name of objects that are made to see whether the API server judges
	// by them, and deleted then.
	marker = "awake.lite.linkerd.io"
	// awakeWithin bounds the wait: something else may refuse the trials.
	awakeWithin = 5 * time.Second
	awakeEvery  = 20 * time.Millisecond
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// awaken waits until the API server judges by what was applied.
//
// It learns of policies and webhooks by watches, and of policies with another second
// of delay. An object of the same kind that comes later is known later: so one is made
// that is about nothing but a ConfigMap of one name, which is tried until it is
// refused.
func (c *Cluster) awaken(ctx context.Context, judges []plan.Step) {
	markers := map[string]schema.GroupVersion{}
	for _, step := range judges {
		markers[strings.TrimSuffix(step.Object.Kind, "Binding")] = step.GVK.GroupVersion()
	}
	for _, kind := range slices.Sorted(maps.Keys(markers)) {
		if err := c.awake(ctx, kind, markers[kind]); err != nil && ctx.Err() == nil {
			c.log.Debug("wait until objects are judged by what was applied", "kind", kind, "error", err)
		}
	}
}

func (c *Cluster) awake(ctx context.Context, kind string, gv schema.GroupVersion) error {
	defer c.forgetMarkers(ctx, kind, gv)
	for _, object := range markersOf(kind, gv) {
		_, err := c.objects.Resource(judgeResource(object.GetKind(), gv)).Apply(ctx, marker, object, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
		if err != nil {
			return err
		}
	}
	probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": marker}}}
	return wait.PollUntilContextTimeout(ctx, awakeEvery, awakeWithin, true, func(ctx context.Context) (bool, error) {
		_, err := c.objects.Resource(configMaps).Namespace(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), marker), nil
	})
}

func (c *Cluster) forgetMarkers(ctx context.Context, kind string, gv schema.GroupVersion) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awakeWithin)
	defer cancel()
	for _, object := range markersOf(kind, gv) {
		if err := ignoreNotFound(c.objects.Resource(judgeResource(object.GetKind(), gv)).Delete(ctx, marker, metav1.DeleteOptions{})); err != nil {
			c.log.Debug("delete what showed that objects are judged", "kind", kind, "error", err)
		}
	}
}

func judgeResource(kind string, gv schema.GroupVersion) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	return resource
}

// markersOf are objects of a kind, with what binds them, that refuse the marker alone:
// by an expression that has no value, or as nobody answers.
func markersOf(kind string, gv schema.GroupVersion) []*unstructured.Unstructured {
	rule := map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"}}
	only := []any{map[string]any{"name": "marker", "expression": fmt.Sprintf("object.metadata.name == %q", marker)}}
	object := func(kind string, fields map[string]any) *unstructured.Unstructured {
		fields["apiVersion"], fields["kind"], fields["metadata"] = gv.String(), kind, map[string]any{"name": marker}
		return &unstructured.Unstructured{Object: fields}
	}
	policy := map[string]any{
		"failurePolicy": "Fail", "matchConstraints": map[string]any{"resourceRules": []any{rule}}, "matchConditions": only,
	}
	binding := map[string]any{"policyName": marker}
	switch kind {
	case "ValidatingAdmissionPolicy":
		policy["validations"] = []any{map[string]any{"expression": "false"}}
		binding["validationActions"] = []any{"Deny"}
	case "MutatingAdmissionPolicy":
		policy["reinvocationPolicy"] = "Never"
		policy["mutations"] = []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{
			"expression": `[JSONPatch{op: "remove", path: "/nothing"}]`,
		}}}
	default:
		return []*unstructured.Unstructured{object(kind, map[string]any{"webhooks": []any{map[string]any{
			"name": marker, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/"}, "rules": []any{rule}, "matchConditions": only,
			"failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "timeoutSeconds": int64(1),
		}}})}
	}
	return []*unstructured.Unstructured{object(kind, map[string]any{"spec": policy}), object(kind+"Binding", map[string]any{"spec": binding})}
}
