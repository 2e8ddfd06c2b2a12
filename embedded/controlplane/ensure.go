package controlplane

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// FieldManager is the name under which the objects are written.
const FieldManager = "linkerd-lite-controlplane"

// parallel is how many objects are applied at once.
const parallel = 8

// Ensure makes the objects of the control plane what config says, and leaves
// everything else of them to others. What is as it should be already is not
// written. The namespace comes first, the rest together; client must not be
// rate limited.
func Ensure(ctx context.Context, client dynamic.Interface, config Config) error {
	config, err := config.withDefaults()
	if err != nil {
		return err
	}
	d, err := newData(config)
	if err != nil {
		return err
	}
	namespace, err := d.render(namespaceFile)
	if err != nil {
		return err
	}
	others, err := d.render(otherFiles...)
	if err != nil {
		return err
	}
	for _, o := range namespace {
		if err := apply(ctx, client, o); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, o := range others {
		group.Go(func() error { return apply(ctx, client, o) })
	}
	return group.Wait()
}

func apply(ctx context.Context, client dynamic.Interface, o object) error {
	var resource dynamic.ResourceInterface = client.Resource(o.resource)
	if o.namespaced {
		resource = client.Resource(o.resource).Namespace(o.GetNamespace())
	}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	_, err := resource.Apply(ctx, o.GetName(), o.Unstructured, options)
	if apierrors.IsInvalid(err) && removeOtherType(ctx, resource, o) {
		_, err = resource.Apply(ctx, o.GetName(), o.Unstructured, options)
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", o, err)
	}
	return nil
}

// removeOtherType deletes a Secret whose type is not that of o, which is so when
// the issuer's scheme has changed: a type cannot be changed in place.
func removeOtherType(ctx context.Context, resource dynamic.ResourceInterface, o object) bool {
	if o.GetKind() != "Secret" {
		return false
	}
	stored, err := resource.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil || stored.Object["type"] == o.Object["type"] {
		return false
	}
	uid := stored.GetUID()
	return resource.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}) == nil
}
