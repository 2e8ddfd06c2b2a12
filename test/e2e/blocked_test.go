package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// Whatever lies in the directory or in the store, the instance gets ready, goes on,
// and is free of it once the file or the object is gone: in the directory at the first
// start, saved into a running instance, and left in the data directory.
func TestBlockersInTheDirectory(t *testing.T) {
	rulebook.Covers(t, "F1")
	if testing.Short() {
		t.Skip("starts clusters")
	}
	for _, row := range blockers {
		t.Run(row.name, func(t *testing.T) {
			dir, dataDir := t.TempDir(), filepath.Join(t.TempDir(), "d")
			file := filepath.Join(dir, "blocker.yaml")
			var p *process
			saved := func() {
				t.Helper()
				writeFile(t, file, row.manifest)
				within(t, "it is applied and blocks", func() bool { return row.stored(t, p) && !isFree(t, p.client(t)) })
			}
			gone := func() {
				t.Helper()
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			free := func() {
				t.Helper()
				within(t, "objects can be written again", func() bool { return !row.stored(t, p) && isFree(t, p.client(t)) })
			}
			start := func(args ...string) {
				t.Helper()
				p = launch(t, dataDir, append(args, "--unsafe-no-fsync")...)
				p.wait(t)
			}

			// In the directory at the first start; the objects are deleted by kubectl.
			writeFile(t, file, row.manifest)
			writeFile(t, filepath.Join(dir, "web.yaml"), endpoints(1))
			start(dir)
			within(t, "it is applied and blocks", func() bool { return row.stored(t, p) && !isFree(t, p.client(t)) })
			row.remove(t, p)
			free()
			gone()

			// Saved into a running instance; its file goes, and comes again.
			saved()
			gone()
			free()
			saved()

			// Left in the data directory by a kill; the start finds that its file is gone.
			p.stop(t, syscall.SIGKILL)
			gone()
			start(dir)
			free()

			// Left there, and nobody looks at files any more: kubectl takes it away.
			saved()
			p.stop(t, syscall.SIGKILL)
			start()
			if !row.stored(t, p) {
				t.Error("it is not in the store")
			}
			row.remove(t, p)
			free()
			p.stop(t, syscall.SIGTERM)
		})
	}
}

// isFree says whether a user can write the objects that the blockers are about.
func isFree(t *testing.T, client kubernetes.Interface) bool {
	t.Helper()
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}, options)
	if err != nil {
		return false
	}
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, options)
	return err == nil
}

var (
	namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	crdsResource       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	serversResource    = schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"}
)

// Our own objects, changed so that they cannot be written or do not go away, and an
// object that nobody can read: the next start gets ready, names what is held by
// whom, and all is well once that has gone.
func TestOwnObjectsHeld(t *testing.T) {
	rulebook.Covers(t, "F1, F6, C1")
	if testing.Short() {
		t.Skip("starts clusters")
	}
	dataDir := filepath.Join(t.TempDir(), "d")
	p := launch(t, dataDir, "--unsafe-no-fsync")
	p.wait(t)
	objects := p.dynamic(t)
	patch := func(resource schema.GroupVersionResource, namespace, name, body string) {
		t.Helper()
		if _, err := objects.Resource(resource).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(resource schema.GroupVersionResource, namespace, name string) {
		t.Helper()
		if err := objects.Resource(resource).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(resource schema.GroupVersionResource, namespace, name string, path ...string) string {
		object, err := objects.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "nothing: " + err.Error()
		}
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
		text, _ := json.Marshal(value)
		return string(text)
	}

	// An immutable ConfigMap with other roots: the true ones come back at once (C1).
	const roots = "linkerd-identity-trust-roots"
	truth := holds(configMapsResource, "linkerd", roots, "data")
	patch(configMapsResource, "linkerd", roots, `{"immutable": true, "data": {"ca-bundle.crt": "another"}}`)
	within(t, "the trust roots are the true ones", func() bool {
		return holds(configMapsResource, "linkerd", roots, "data") == truth && holds(configMapsResource, "linkerd", roots, "immutable") == "null"
	})

	const finalizer = `{"metadata": {"finalizers": ["example.com/hold"]}}`
	if _, err := objects.Resource(serversResource).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
		"metadata": map[string]any{"name": "held", "finalizers": []any{"example.com/hold"}},
		"spec":     map[string]any{"podSelector": map[string]any{}, "port": int64(80)},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch(configMapsResource, "linkerd", "linkerd-config", finalizer)
	remove(namespacesResource, "", "linkerd")
	remove(crdsResource, "", "servers.policy.linkerd.io")
	p.corrupt(t, "/registry/pods/default/bad")
	p.stop(t, syscall.SIGTERM)

	p = launch(t, dataDir, "--unsafe-no-fsync")
	p.wait(t)
	objects = p.dynamic(t)
	says := func(want string) {
		t.Helper()
		within(t, want+" is said", func() bool { return strings.Contains(p.said(), want) })
	}
	// One Pod that nobody can read keeps all of them, and so the namespace.
	says("being deleted, and comes back with all its objects when that is done")
	says("servers.policy.linkerd.io")
	says("corrupt object")

	// What holds them is taken away.
	if err := p.client(t).CoreV1().Pods("default").Delete(t.Context(), "bad", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}); err != nil {
		t.Fatal(err)
	}
	says("example.com/hold")
	patch(serversResource, "default", "held", `{"metadata": {"finalizers": []}}`)
	patch(configMapsResource, "linkerd", "linkerd-config", `{"metadata": {"finalizers": []}}`)
	within(t, "the namespace and its objects are back", func() bool {
		return holds(namespacesResource, "", "linkerd", "metadata", "deletionTimestamp") == "null" &&
			holds(configMapsResource, "linkerd", roots, "data") == truth
	})
	within(t, "the definition is back", func() bool {
		_, err := objects.Resource(serversResource).List(t.Context(), metav1.ListOptions{})
		return err == nil && holds(crdsResource, "", "servers.policy.linkerd.io", "metadata", "deletionTimestamp") == "null"
	})

	// F6: deleted in a running instance, everything comes back by itself.
	remove(namespacesResource, "", "linkerd")
	remove(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, "", "linkerd-policy-validator-webhook-config")
	within(t, "all is there again", func() bool {
		return holds(namespacesResource, "", "linkerd", "metadata", "deletionTimestamp") == "null" &&
			holds(configMapsResource, "linkerd", roots, "data") == truth &&
			holds(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, "", "linkerd-policy-validator-webhook-config", "metadata", "name") != ""
	})
	p.stop(t, syscall.SIGTERM)
}

// A conversion webhook that nobody answers, on a definition of ours, while an
// instance runs and at the next start.
func TestDeadConversionWebhook(t *testing.T) {
	rulebook.Covers(t, "F1, F6")
	if testing.Short() {
		t.Skip("starts clusters")
	}
	dataDir := filepath.Join(t.TempDir(), "d")
	p := launch(t, dataDir, "--unsafe-no-fsync")
	p.wait(t)
	objects := p.dynamic(t)
	definition, err := objects.Resource(crdsResource).Get(t.Context(), "servers.policy.linkerd.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version := v.(map[string]any)
		version["storage"] = version["name"] == "v1beta1"
	}
	update := func(edit func(spec map[string]any)) {
		t.Helper()
		stored, err := objects.Resource(crdsResource).Get(t.Context(), "servers.policy.linkerd.io", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		edit(stored.Object["spec"].(map[string]any))
		if _, err := objects.Resource(crdsResource).Update(t.Context(), stored, metav1.UpdateOptions{FieldManager: "a user"}); err != nil {
			t.Fatal(err)
		}
	}
	update(func(spec map[string]any) { spec["versions"] = versions })
	server := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server", "metadata": map[string]any{"name": "old"},
		"spec": map[string]any{"podSelector": map[string]any{}, "port": int64(80)},
	}}
	// The API server goes by the new definition a little later.
	within(t, "an object is stored in the old version", func() bool {
		_, err := objects.Resource(serversResource).Namespace("default").Create(t.Context(), server, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false
		}
		if strings.Contains(p.stored(t, "/registry/policy.linkerd.io/servers/default/old"), "policy.linkerd.io/v1beta1") {
			return true
		}
		_ = objects.Resource(serversResource).Namespace("default").Delete(t.Context(), "old", metav1.DeleteOptions{})
		return false
	})
	update(func(spec map[string]any) {
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"},
		}}
	})
	// While the instance runs: the watch of before would go on, but nobody can list them.
	const unlisted = "conversion webhook for policy.linkerd.io"
	within(t, "the kind that cannot be listed is named", func() bool { return strings.Contains(p.said(), unlisted) })
	p.stop(t, syscall.SIGTERM)

	p = launch(t, dataDir, "--unsafe-no-fsync")
	p.wait(t)
	objects = p.dynamic(t)
	within(t, "the definition is named", func() bool { return strings.Contains(p.said(), "servers.policy.linkerd.io") })
	update(func(spec map[string]any) { spec["conversion"] = map[string]any{"strategy": "None"} })
	within(t, "the objects can be read", func() bool {
		list, err := objects.Resource(serversResource).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1
	})
	p.stop(t, syscall.SIGTERM)
}

// within is eventually.Holds for what costs a request.
func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(eventually.Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %v: %s", eventually.Patience, what)
		case <-tick.C:
		}
	}
}

func (p *process) dynamic(t testing.TB) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dataDir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// corrupt stores something behind the API server's back that it cannot read.
func (p *process) corrupt(t testing.TB, key string) {
	t.Helper()
	p.etcd(t, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, key, "no object")
		return err
	})
}

// stored is what etcd has under a key, "" for nothing.
func (p *process) stored(t testing.TB, key string) (value string) {
	t.Helper()
	p.etcd(t, func(ctx context.Context, client *clientv3.Client) error {
		got, err := client.Get(ctx, key)
		if err == nil && len(got.Kvs) > 0 {
			value = string(got.Kvs[0].Value)
		}
		return err
	})
	return value
}

func (p *process) etcd(t testing.TB, do func(context.Context, *clientv3.Client) error) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(p.dataDir, "etcd.sock")}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := do(ctx, client); err != nil {
		t.Fatal(err)
	}
}
