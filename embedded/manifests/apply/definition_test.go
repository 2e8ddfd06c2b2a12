package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// What the old schema of a changed definition refuses is sent again, for as long as the old one may be in use.
func TestSettledPatch(t *testing.T) {
	rulebook.Covers(t, "B77")
	var (
		widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		object  = source.Key{Group: widgets.Group, Kind: "Widget", Namespace: "default", Name: "w"}
		now     = time.Now()
		refused = apierrors.NewBadRequest(".spec.more: field not declared in schema")
	)
	tests := []struct {
		name       string
		generation int64
		changed    time.Duration
		answers    []error // of the first requests; then it is taken
		want       error
		requests   int
	}{
		{"taken at once", 2, 0, nil, nil, 1},
		{"the old schema twice, then the new one", 2, 0, []error{refused, refused}, nil, 3},
		{"no answer in between", 2, 0, []error{refused, errors.New("connection refused")}, nil, 3},
		{"a new definition", 1, 0, []error{refused}, refused, 1},
		{"changed long ago", 3, time.Minute, []error{refused}, refused, 1},
		{"a built-in kind", 0, 0, []error{refused}, refused, 1},
		{"no answer", 2, 0, []error{context.DeadlineExceeded}, context.DeadlineExceeded, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			var objects []runtime.Object
			if test.generation > 0 {
				changed := metav1.NewTime(now.Add(-test.changed))
				objects = append(objects, &metav1.PartialObjectMetadata{
					TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
					ObjectMeta: metav1.ObjectMeta{
						Name: widgets.GroupResource().String(), Generation: test.generation,
						ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &changed}},
					},
				})
			}
			client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
			requests := 0
			client.PrependReactor("patch", widgets.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				requests++
				if requests <= len(test.answers) {
					return true, nil, test.answers[requests-1]
				}
				return true, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: object.Name}}, nil
			})
			cluster := &Cluster{client: client, now: func() time.Time { return now }}
			step := plan.Step{Kind: plan.Kind{GVR: widgets, Namespaced: true}, Manifest: &unstructured.Unstructured{}}
			step.Object = object
			_, err := cluster.settledPatch(t.Context(), step, map[string]any{})
			if !errors.Is(err, test.want) || requests != test.requests {
				t.Errorf("%d requests: %v; want %d: %v", requests, err, test.requests, test.want)
			}
		})
	}
}
