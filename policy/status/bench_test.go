package status

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// BenchmarkThousandRoutes measures a running instance, with all that is in the
// way of a status there: how long after the last of 1,000 routes was written
// the last of them has one (s/last), and all of it (s/all). Run it under one:
//
//	linkerd-lite up --random-ports --data-dir "$(mktemp -d)" -- \
//	  go test ./policy/status -run '^$' -bench ThousandRoutes -benchtime 1x
func BenchmarkThousandRoutes(b *testing.B) {
	if os.Getenv("LINKERD_LITE_DATA_DIR") == "" {
		b.Skip("not run by linkerd-lite up")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		last, all := thousandRoutes(b, client, fmt.Sprintf("routes-%d-%d", time.Now().UnixNano(), n))
		b.ReportMetric(last.Seconds(), "s/last")
		b.ReportMetric(all.Seconds(), "s/all")
		b.ReportMetric(0, "ns/op")
	}
}

func thousandRoutes(b *testing.B, client dynamic.Interface, namespace string) (last, all time.Duration) {
	b.Helper()
	create := func(gvr schema.GroupVersionResource, in string, obj map[string]any) error {
		_, err := client.Resource(gvr).Namespace(in).Create(b.Context(), &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
		return err
	}
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "",
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}))
	must(create(state.Services.GVR, namespace, map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "my-svc"},
		"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}},
	}))
	routes := client.Resource(state.PolicyHTTPRoutes.GVR).Namespace(namespace)
	watch, err := routes.Watch(b.Context(), metav1.ListOptions{})
	must(err)
	defer watch.Stop()
	began := time.Now()
	var writing errgroup.Group
	writing.SetLimit(16)
	written := make(chan time.Time, 1)
	go func() {
		for i := range 1000 {
			writing.Go(func() error {
				return create(state.PolicyHTTPRoutes.GVR, namespace, map[string]any{
					"apiVersion": "policy.linkerd.io/v1beta3", "kind": "HTTPRoute", "metadata": map[string]any{"name": fmt.Sprint("r", i)},
					"spec": map[string]any{
						"parentRefs": []any{map[string]any{"group": "core", "kind": "Service", "name": "my-svc", "port": int64(80)}},
						"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": "my-svc", "port": int64(80)}}}},
					},
				})
			})
		}
		if err := writing.Wait(); err != nil {
			b.Error(err)
		}
		written <- time.Now()
	}()
	judged := map[string]bool{}
	for event := range watch.ResultChan() {
		route, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			b.Fatalf("watch: %v", event.Object)
		}
		parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
		if len(parents) > 0 {
			judged[route.GetName()] = true
		}
		if len(judged) == 1000 {
			break
		}
	}
	end := time.Now()
	return end.Sub(<-written), end.Sub(began)
}
