package controlplane

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// FieldManager is the name under which the objects are written.
const FieldManager = "linkerd-lite-controlplane"

const namespaceKind = "Namespace"

// ref names an object in the API server.
type ref struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (k *Keeper) apply(ctx context.Context, o object) (*unstructured.Unstructured, error) {
	return k.resource(o).Apply(ctx, o.GetName(), o.Unstructured, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
}

// watch tells the keeper of changes, by the metadata of all objects that have
// the control plane's label; one that loses the label looks as if it were gone.
func (k *Keeper) watch(ctx context.Context, group *lifecycle.Group) error {
	client, err := metadata.NewForConfig(k.config.Client)
	if err != nil {
		return fmt.Errorf("client for changes of the control plane's objects: %w", err)
	}
	config := k.config.Describe()
	for kind, resource := range resources {
		namespace := ""
		if resource.namespaced {
			namespace = config.ControlPlaneNamespace
		}
		gvr := resource.version.WithResource(resource.name)
		informer := metadatainformer.NewFilteredMetadataInformer(client, gvr, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector = linkerd.ControlPlaneNSLabel + "=" + config.ControlPlaneNamespace
		}).Informer()
		if err := informer.SetTransform(withoutOwners); err != nil {
			return fmt.Errorf("watch kind %s: %w", kind, err)
		}
		told := func(object any, gone bool) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if meta, ok := object.(*metav1.PartialObjectMetadata); ok {
				seen := mark(meta)
				if gone {
					seen = ""
				}
				k.changed(ref{gvr, meta.Namespace, meta.Name}, seen)
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { told(object, false) },
			UpdateFunc: func(_, object any) { told(object, false) },
			DeleteFunc: func(object any) { told(object, true) },
		}); err != nil {
			return fmt.Errorf("watch kind %s: %w", kind, err)
		}
		group.Go("watch of kind "+kind, func() error {
			informer.RunWithContext(ctx)
			return nil
		})
	}
	return nil
}

// mark tells the versions of an object apart. Those that differ in their status alone have the same mark, if the API
// server counts the others of the kind.
func mark(o metav1.Object) string {
	if o.GetGeneration() == 0 {
		return o.GetResourceVersion()
	}
	return fmt.Sprint(o.GetUID(), o.GetGeneration(), o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences(), o.GetFinalizers(), o.GetDeletionTimestamp())
}

// withoutOwners drops the owners of fields, which are most of the metadata and no part of a mark.
func withoutOwners(object any) (any, error) {
	if meta, ok := object.(*metav1.PartialObjectMetadata); ok {
		meta.ManagedFields = nil
	}
	return object, nil
}

// heldError says what keeps the namespace from its end.
type heldError struct{ holders string }

func (e *heldError) Error() string {
	return "it is being deleted, and comes back with all its objects when that is done: " + e.holders
}

// holders says what keeps a namespace that is being deleted, as far as it is known.
func holders(namespace *unstructured.Unstructured) string {
	var found []string
	if finalizers := namespace.GetFinalizers(); len(finalizers) > 0 {
		found = append(found, "held by its finalizers "+strings.Join(finalizers, ", "))
	}
	finalizers, _, _ := unstructured.NestedStringSlice(namespace.Object, "spec", "finalizers")
	for _, finalizer := range finalizers {
		if finalizer != "kubernetes" {
			found = append(found, "held by its finalizer "+finalizer)
		}
	}
	conditions, _, _ := unstructured.NestedSlice(namespace.Object, "status", "conditions")
	for _, condition := range conditions {
		c, _ := condition.(map[string]any)
		if message, _ := c["message"].(string); c["status"] == "True" && message != "" {
			found = append(found, message)
		}
	}
	if len(found) == 0 {
		return "its objects are being deleted"
	}
	return strings.Join(found, "; ")
}
