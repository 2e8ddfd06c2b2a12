package apply

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// The API server goes on serving a changed definition's old schema until a watch has told it of the new one, and no
// status says when that is.
const (
	schemaServedWithin = 2 * time.Second
	schemaAskedEvery   = 50 * time.Millisecond
)

// settledPatch is patch; what the old schema of a definition that was just changed refuses is sent again until
// the new one must be in use, as files often change together.
func (c *Cluster) settledPatch(ctx context.Context, step plan.Step, body map[string]any, sub ...string) (*metav1.PartialObjectMetadata, error) {
	meta, err := c.patch(ctx, step, body, sub...)
	if err == nil || !isAnswer(err) {
		return meta, err
	}
	left := schemaServedWithin - c.sinceRedefined(ctx, step.Kind.GVR.GroupResource())
	if left <= 0 {
		return meta, err
	}
	// The last answer counts, whatever it is.
	_ = wait.PollUntilContextTimeout(ctx, schemaAskedEvery, left, false, func(ctx context.Context) (bool, error) {
		again, errAgain := c.patch(ctx, step, body, sub...)
		if errAgain == nil || isAnswer(errAgain) {
			meta, err = again, errAgain
		}
		return errAgain == nil, nil
	})
	return meta, err
}

// sinceRedefined is the time since the definition of a kind was changed. That it was made does not count, as nothing
// is served before its schema is in use.
func (c *Cluster) sinceRedefined(ctx context.Context, kind schema.GroupResource) time.Duration {
	definition, err := c.client.Resource(definitions).Get(ctx, kind.String(), metav1.GetOptions{})
	if err != nil || definition.Generation < 2 {
		return schemaServedWithin // or later: a built-in kind, for one, has no definition
	}
	var changed time.Time
	for _, entry := range definition.ManagedFields {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(changed) {
			changed = entry.Time.Time
		}
	}
	return c.now().Sub(changed) // the server keeps whole seconds, rounded down
}
