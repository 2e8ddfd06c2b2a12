package webhook

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const probeName = "linkerd-lite-probe"

// Refuses returns a probe that makes an object that the webhook must refuse. It is a dry run: nothing is stored even if
// the API server does not know the webhook yet. It applies the object rather than creating it, because the API server
// holds a create for 2 s if the definition of the kind is younger than that.
func Refuses(webhook, apiVersion, kind, resource string, spec map[string]any) func(context.Context, *rest.Config, string) (bool, error) {
	refusal := fmt.Sprintf("admission webhook %q denied the request", webhook)
	return func(ctx context.Context, config *rest.Config, namespace string) (bool, error) {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return false, err
		}
		group, err := schema.ParseGroupVersion(apiVersion)
		if err != nil {
			return false, err
		}
		_, err = client.Resource(group.WithResource(resource)).Namespace(namespace).Apply(ctx, probeName, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion,
			"kind":       kind,
			"metadata":   map[string]any{"name": probeName},
			"spec":       spec,
		}}, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: FieldManager})
		if err != nil && strings.Contains(err.Error(), refusal) {
			return true, nil
		}
		return false, err
	}
}
