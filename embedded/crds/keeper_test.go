package crds

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/embedded/etcd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// startServer runs the API server of custom resources alone, which needs no Kubernetes.
func startServer(t *testing.T) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	store, err := etcd.New(etcd.Config{Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(dir, "e")})
	if err != nil {
		t.Fatal(err)
	}
	parts.Start(t, time.Minute, store.Run)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := servertesting.StartTestServer(t, nil, []string{
		"--etcd-servers", store.Endpoint(),
		"--authentication-skip-lookup",
		"--authentication-kubeconfig", kubeconfig,
		"--authorization-kubeconfig", kubeconfig,
		"--kubeconfig", kubeconfig,
		"--enable-priority-and-fairness=false",
		"--disable-admission-plugins", "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.TearDownFn)
	return server.ClientConfig
}

// runKeeper starts a keeper, which ends with the test, and returns how long it took to be ready, with a function that stops it.
func runKeeper(t *testing.T, config *rest.Config) (*Keeper, time.Duration, func()) {
	t.Helper()
	builtin, err := Builtin(true)
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := New(config, builtin, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	stop := parts.Start(t, time.Minute, keeper.Run)
	return keeper, time.Since(start), stop
}

func TestKeeper(t *testing.T) {
	rulebook.Covers(t, "P05")
	config := startServer(t)
	client := clientset.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	objects := dynamic.NewForConfigOrDie(config)
	// Each keeper outlives the subtest that starts it.
	run := func() (*Keeper, time.Duration, func()) { return runKeeper(t, config) }
	keeper, took, stop := run()
	t.Logf("all definitions served after %v", took)

	const name = "servers.policy.linkerd.io"
	get := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		crd, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return crd
	}
	create := func(kind schema.GroupVersionResource, object map[string]any) error {
		_, err := objects.Resource(kind).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return err
	}
	servers := schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1beta3", Resource: "servers"}
	server := func(name string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
			"metadata": map[string]any{"name": name}, "spec": spec}
	}
	if err := create(servers, server("a", map[string]any{"podSelector": map[string]any{}, "port": int64(80)})); err != nil {
		t.Error(err)
	}
	if err := create(servers, server("b", map[string]any{"podSelector": map[string]any{}, "externalWorkloadSelector": map[string]any{}, "port": int64(80)})); err == nil {
		t.Error("a Server with two selectors was stored")
	}

	t.Run("an older built-in definition is updated", func(t *testing.T) {
		stop()
		older := get()
		older.Annotations[hashAnnotation] = "older"
		older.Spec.Names.ShortNames = nil
		if _, err := client.Update(t.Context(), older, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
			t.Fatal(err)
		}
		_, _, stop = run()
		await(t, func() bool { return len(get().Spec.Names.ShortNames) == 1 })
	})
	t.Run("a user's definition stays, also over a restart", func(t *testing.T) {
		users := keeper.builtin[name].DeepCopy()
		users.Spec.Names.ShortNames = []string{"mine"}
		users.Annotations = nil
		users.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		data, err := apply(users)
		if err != nil {
			t.Fatal(err)
		}
		force := true
		if _, err := client.Patch(t.Context(), name, types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "linkerd-lite-manifests", Force: &force}); err != nil {
			t.Fatal(err)
		}
		stop()
		keeper, _, stop = run()
		if got := get().Spec.Names.ShortNames; len(got) != 1 || got[0] != "mine" {
			t.Errorf("short names %v, want the user's", got)
		}
	})
	t.Run("a removed definition returns", func(t *testing.T) {
		before := get().UID
		if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool {
			crd, err := client.Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && crd.UID != before
		})
		if err := keeper.Wait(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if got := get().Spec.Names.ShortNames; len(got) != 1 || got[0] != "srv" {
			t.Errorf("short names %v, want the built-in ones", got)
		}
	})
	t.Run("an unknown name is an error", func(t *testing.T) {
		if err := keeper.Wait(t.Context(), "gateways.gateway.networking.k8s.io"); err == nil {
			t.Error("no error")
		}
	})
	stop()
}

func apply(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return json.Marshal(crd)
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	eventually.Holds(t, "the definition is as it should be", condition, nil)
}
