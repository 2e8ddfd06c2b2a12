package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/crds"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

const (
	// twoServers are one in the version that unanswered makes the stored one, and one to be converted.
	twoServers = `
---
apiVersion: policy.linkerd.io/v1beta1
kind: Server
metadata: {name: old}
spec: {podSelector: {}, port: 80}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: new}
spec: {podSelector: {}, port: 80}
`
	ownInDirectory = `
apiVersion: v1
kind: Namespace
metadata: {name: linkerd, finalizers: [example.com/hold]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: linkerd-config, namespace: linkerd}
immutable: true
data: {values: another}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: linkerd-identity-trust-roots, namespace: linkerd}
immutable: true
data: {ca-bundle.crt: another}
`
)

// serverDefinition is a manifest of our definition of Servers, changed.
func serverDefinition(t *testing.T, change func(*apiextensionsv1.CustomResourceDefinition)) string {
	t.Helper()
	builtin, err := crds.Builtin(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range builtin {
		if definition.Name != "servers.policy.linkerd.io" {
			continue
		}
		definition = definition.DeepCopy()
		definition.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		change(definition)
		text, err := yaml.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Fatal("there is no definition of Servers")
	return ""
}

// unanswered makes an older version the stored one, and nobody converts it.
func unanswered(definition *apiextensionsv1.CustomResourceDefinition) {
	url := "https://127.0.0.1:1/convert"
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url},
		},
	}
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		version.Storage = version.Name == "v1beta1"
	}
}

// What is ours lies in the directory, in a form that blocks: at the first start, saved
// into a running instance, and left in the data directory. Each time the instance is
// ready, says so, applies the rest, and all is as it was when the file has gone.
func TestOwnObjectsInTheDirectory(t *testing.T) {
	rulebook.Covers(t, "F1, B80")
	if testing.Short() {
		t.Skip("starts clusters")
	}
	finalizer := func(d *apiextensionsv1.CustomResourceDefinition) { d.Finalizers = []string{"example.com/hold"} }
	for _, row := range []struct {
		// said is what names manifest, objects what is saved once that counts.
		name, manifest, objects, said string
		// taken is whether what is ours is changed meanwhile, blocks whether Servers cannot be read.
		taken, blocks bool
	}{
		{"a definition whose objects nobody converts", serverDefinition(t, unanswered), twoServers,
			"conversion webhook for policy.linkerd.io/v1beta3, Kind=Server failed", true, true},
		{"a definition with a finalizer", serverDefinition(t, finalizer), "",
			"apply    CustomResourceDefinition servers.policy.linkerd.io", true, false},
		{"immutable ConfigMaps, and the namespace with a finalizer", ownInDirectory, "", "not applied, as linkerd-lite keeps these itself: " +
			"Namespace linkerd, ConfigMap linkerd/linkerd-config, ConfigMap linkerd/linkerd-identity-trust-roots", false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir, dataDir := t.TempDir(), filepath.Join(t.TempDir(), "d")
			var p *process
			rest := 0
			// goesOn saves another file and waits until that is applied.
			goesOn := func() {
				t.Helper()
				rest++
				want := int64(rest)
				writeFile(t, filepath.Join(dir, "other.yaml"), otherService(rest))
				within(t, "the rest is applied", func() bool {
					stored, err := p.dynamic(t).Resource(servicesResource).Namespace("default").Get(t.Context(), "other", metav1.GetOptions{})
					if err != nil {
						return false
					}
					ports, _, _ := unstructured.NestedSlice(stored.Object, "spec", "ports")
					return len(ports) == 1 && ports[0].(map[string]any)["port"] == want
				})
			}
			asMade := func() bool { return p.ownAsMade(t) }
			start := func() {
				t.Helper()
				p = launch(t, dataDir, dir, "--unsafe-no-fsync")
				p.wait(t)
			}
			save := func() {
				t.Helper()
				writeFile(t, filepath.Join(dir, "own.yaml"), row.manifest)
				if p != nil && row.blocks {
					within(t, "it blocks", func() bool { return !p.converts(t) })
				}
				writeFile(t, filepath.Join(dir, "servers.yaml"), row.objects)
			}
			named := func() {
				t.Helper()
				within(t, row.said+" is said", func() bool { return strings.Contains(p.said(), row.said) })
				goesOn()
				within(t, "it counts", func() bool { return asMade() != row.taken && p.reads(t) != row.blocks })
			}
			remove := func() {
				t.Helper()
				for _, name := range []string{"own.yaml", "servers.yaml"} {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			free := func() {
				t.Helper()
				goesOn()
				within(t, "all is as it was", func() bool { return asMade() && p.reads(t) })
			}

			save()
			start()
			named()
			remove()
			free()

			// Saved into a running instance, and left in the data directory.
			save()
			named()
			p.stop(t, syscall.SIGKILL)
			start()
			goesOn()
			remove()
			free()

			// The start finds that the files are gone.
			save()
			named()
			p.stop(t, syscall.SIGKILL)
			remove()
			start()
			free()
			p.stop(t, syscall.SIGTERM)
		})
	}
}

var servicesResource = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// converts reports whether a Server can be made in the newest version.
func (p *process) converts(t *testing.T) bool {
	t.Helper()
	_, err := p.dynamic(t).Resource(serversResource).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server", "metadata": map[string]any{"name": "probe"},
		"spec": map[string]any{"podSelector": map[string]any{}, "port": int64(80)},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err == nil
}

func (p *process) reads(t *testing.T) bool {
	t.Helper()
	_, err := p.dynamic(t).Resource(serversResource).List(t.Context(), metav1.ListOptions{})
	return err == nil
}

// ownAsMade reports whether what a row changes is as the program makes it.
func (p *process) ownAsMade(t *testing.T) bool {
	t.Helper()
	get := func(resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
		object, err := p.dynamic(t).Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return &unstructured.Unstructured{Object: map[string]any{"immutable": true}}
		}
		return object
	}
	definition := get(crdsResource, "", "servers.policy.linkerd.io")
	strategy, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "strategy")
	for _, object := range []*unstructured.Unstructured{
		definition, get(namespacesResource, "", "linkerd"),
		get(configMapsResource, "linkerd", "linkerd-config"), get(configMapsResource, "linkerd", "linkerd-identity-trust-roots"),
	} {
		if object.Object["immutable"] == true || object.GetDeletionTimestamp() != nil || len(object.GetFinalizers()) > 0 {
			return false
		}
	}
	return strategy == "None"
}

// What is the user's is being deleted and held: the rest goes on, who holds it is said,
// also after a restart, and a file of it is applied as soon as the old one has gone.
func TestTerminatingInTheDirectory(t *testing.T) {
	rulebook.Covers(t, "F1")
	if testing.Short() {
		t.Skip("starts clusters")
	}
	const manifest = `
apiVersion: v1
kind: Namespace
metadata: {name: held, finalizers: [example.com/hold]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inside, namespace: held}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com, finalizers: [example.com/hold]}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Foo, plural: foos}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	dir, dataDir := t.TempDir(), filepath.Join(t.TempDir(), "d")
	file := filepath.Join(dir, "held.yaml")
	writeFile(t, file, manifest)
	writeFile(t, filepath.Join(dir, "other.yaml"), otherService(1))
	p := launch(t, dataDir, dir, "--unsafe-no-fsync")
	p.wait(t)
	says := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			within(t, text, func() bool { return strings.Contains(p.said(), text) })
		}
	}
	// old is what must not be there in the end.
	old := map[types.UID]bool{}
	held := func() []*unstructured.Unstructured {
		t.Helper()
		var list []*unstructured.Unstructured
		for _, at := range []struct {
			resource  schema.GroupVersionResource
			namespace string
			name      string
		}{{namespacesResource, "", "held"}, {configMapsResource, "held", "inside"}, {crdsResource, "", "foos.example.com"}} {
			object, err := p.dynamic(t).Resource(at.resource).Namespace(at.namespace).Get(t.Context(), at.name, metav1.GetOptions{})
			if err == nil {
				list = append(list, object)
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		return list
	}
	for _, object := range held() {
		old[object.GetUID()] = true
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	waiting := []string{
		"waiting: Namespace held: was deleted, and is not gone yet: its finalizers have not been removed: example.com/hold",
		"waiting: CustomResourceDefinition foos.example.com: was deleted, and is not gone yet: its finalizers have not been removed: example.com/hold",
	}
	says(waiting...)
	p.stop(t, syscall.SIGKILL)
	p = launch(t, dataDir, dir, "--unsafe-no-fsync")
	p.wait(t)
	says(waiting...)
	writeFile(t, file, manifest)
	says("Namespace held: the object is still being deleted; it is applied again when it is gone",
		"CustomResourceDefinition foos.example.com: the object is still being deleted; it is applied again when it is gone")
	p.stop(t, syscall.SIGTERM)

	// In the directory at a start, while the old ones are still held.
	p = launch(t, dataDir, dir, "--unsafe-no-fsync")
	p.wait(t)
	for _, object := range held() {
		resource := crdsResource
		if object.GetKind() == "Namespace" {
			resource = namespacesResource
		}
		if _, err := p.dynamic(t).Resource(resource).Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(`{"metadata": {"finalizers": []}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "new ones are there", func() bool {
		list := held()
		for _, object := range list {
			if old[object.GetUID()] || object.GetDeletionTimestamp() != nil {
				return false
			}
		}
		return len(list) == 3
	})
	p.stop(t, syscall.SIGTERM)
}

// otherService is a manifest of a Service with one port.
func otherService(port int) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: other}\nspec: {ports: [{port: " + strconv.Itoa(port) + "}]}\n"
}
