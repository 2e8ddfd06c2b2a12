package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// The benchmarks of this file need a cluster of their own:
//
//	linkerd-lite up --random-ports --data-dir "$(mktemp -d)" -- \
//	  go test ./embedded/manifests -run '^$' -bench 'FirstApply|Save' -benchtime 200x
//
// They use no other: LINKERD_LITE_DATA_DIR says that KUBECONFIG is one.
func benchCluster(b *testing.B) *rest.Config {
	b.Helper()
	if os.Getenv("LINKERD_LITE_DATA_DIR") == "" {
		b.Skip("not run by linkerd-lite up")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	return config
}

func benchService(namespace, name string, port int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec:\n  selector: {app: %[1]s}\n  ports: [{name: http, port: %[3]d, targetPort: 8080}]\n", name, namespace, port)
}

// thousand writes 1,000 objects of a namespace into files of one each.
func thousand(b *testing.B, dir, namespace string) {
	b.Helper()
	must(b, os.WriteFile(filepath.Join(dir, "zz.yaml"), fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", namespace), 0o644))
	for i := range 999 {
		name, content := fmt.Sprint("s", i), ""
		if i%2 == 0 {
			content = benchService(namespace, name, 80)
		} else {
			content = strings.ReplaceAll(cm(name, "1"), "namespace: ns", "namespace: "+namespace)
		}
		must(b, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(content), 0o644))
	}
}

// benchRun runs a Syncer until the end of b, and returns when it is ready.
func benchRun(b *testing.B, config *rest.Config, dir string) {
	b.Helper()
	s := New(Config{Dirs: []string{dir}, RESTConfig: config, StateDir: b.TempDir(), Sync: true})
	parts.Start(b, time.Minute, s.Run)
	if status := s.Status(); !status.InSync {
		b.Fatalf("not in sync: %+v", status)
	}
}

// BenchmarkFirstApply is 1,000 objects in a directory that is new.
func BenchmarkFirstApply(b *testing.B) {
	config := benchCluster(b)
	dir := b.TempDir()
	thousand(b, dir, fmt.Sprintf("first-%d", time.Now().UnixNano()))
	began := time.Now()
	benchRun(b, config, dir)
	b.ReportMetric(time.Since(began).Seconds(), "s/1000")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSave is the time from before a file is written to the event of a watch
// of its object, with 1,000 other objects in the directory.
func BenchmarkSave(b *testing.B) {
	config := benchCluster(b)
	dir := b.TempDir()
	namespace := fmt.Sprintf("save-%d", time.Now().UnixNano())
	thousand(b, dir, namespace)
	path := filepath.Join(dir, "saved.yaml")
	must(b, os.WriteFile(path, []byte(benchService(namespace, "saved", 80)), 0o644))
	benchRun(b, config, dir)
	client, err := dynamic.NewForConfig(config)
	must(b, err)
	watch, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(namespace).
		Watch(b.Context(), metav1.ListOptions{FieldSelector: "metadata.name=saved"})
	must(b, err)
	defer watch.Stop()
	var all []time.Duration
	port := 1000
	for b.Loop() {
		port++
		began := time.Now()
		must(b, os.WriteFile(path, []byte(benchService(namespace, "saved", port)), 0o644))
		for event := range watch.ResultChan() {
			service, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				b.Fatalf("watch: %v", event.Object)
			}
			ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
			if got, _, _ := unstructured.NestedInt64(ports[0].(map[string]any), "port"); got == int64(port) {
				break
			}
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}
