package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
)

// patch is a merge patch of an object's status subresource. Lists are replaced
// as a whole, so it names the version that it was made from: entries that
// another controller adds in the meantime are not lost, the patch is refused
// instead (B66).
type patch struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   patchMetadata `json:"metadata"`
	Status     any           `json:"status"`
}

type patchMetadata struct {
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// write patches an object's status. An error is worth another attempt.
func (w *Writer) write(ctx context.Context, key reconcile.Key, p plan) (reconcile.Written, error) {
	w.metrics.enqueues.Inc()
	w.metrics.dequeues.Inc()
	version, err := w.send(ctx, key, p)
	switch {
	case err == nil:
		w.log.Info("status written", "kind", key.Kind.GVK.Kind, "object", key.Namespace+"/"+key.Name)
		return reconcile.Written{key.Name: version}, nil
	case apierrors.IsInvalid(err):
		// With the entries of other controllers there may be too many.
		return nil, &reconcile.Refused{Err: err}
	case ctx.Err() != nil:
		w.metrics.drops.Inc()
	}
	return nil, err
}

// send patches, counts what comes of it, and returns the version that the object has then.
func (w *Writer) send(ctx context.Context, key reconcile.Key, p plan) (version string, err error) {
	body, err := json.Marshal(patch{
		APIVersion: key.Kind.GVK.GroupVersion().String(),
		Kind:       key.Kind.GVK.Kind,
		Metadata:   patchMetadata{key.Namespace, key.Name, p.version},
		Status:     p.status.at(metav1.Now()),
	})
	if err != nil {
		return "", fmt.Errorf("encode status of %s: %w", key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.PatchTimeout)
	defer cancel()
	start := time.Now()
	patched, err := w.config.Client.Resource(key.Kind.GVR).Namespace(key.Namespace).Patch(ctx, key.Name,
		types.MergePatchType, body, metav1.PatchOptions{FieldManager: linkerd.PolicyControllerName}, "status")
	if errors.Is(err, context.DeadlineExceeded) {
		w.metrics.timeouts.Inc()
		return "", err
	}
	w.metrics.duration.Observe(time.Since(start).Seconds())
	if err != nil {
		w.metrics.errors.Inc()
		return "", err
	}
	w.metrics.patches.Inc()
	return patched.GetResourceVersion(), nil
}
