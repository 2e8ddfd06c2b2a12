package controlplane

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

//go:embed objects/*.yaml
var files embed.FS

// namespaceFile comes first; the others need it, and are in no order.
const namespaceFile = "namespace.yaml"

var otherFiles = []string{"access.yaml", "config.yaml", "services.yaml", "deployments.yaml"}

// object is an object to apply and where it belongs.
type object struct {
	*unstructured.Unstructured
	resource   schema.GroupVersionResource
	namespaced bool
}

func (o object) String() string { return o.GetKind() + " " + o.GetName() }

func (o object) ref() ref { return ref{o.resource, o.GetNamespace(), o.GetName()} }

// resources are those of the kinds in the files, so that nothing has to be
// asked of the API server's discovery.
var resources = map[string]struct {
	version    schema.GroupVersion
	name       string
	namespaced bool
}{
	"Namespace":          {corev1.SchemeGroupVersion, "namespaces", false},
	"ServiceAccount":     {corev1.SchemeGroupVersion, "serviceaccounts", true},
	"ConfigMap":          {corev1.SchemeGroupVersion, "configmaps", true},
	"Secret":             {corev1.SchemeGroupVersion, "secrets", true},
	"Service":            {corev1.SchemeGroupVersion, "services", true},
	"Deployment":         {appsv1.SchemeGroupVersion, "deployments", true},
	"Role":               {rbacv1.SchemeGroupVersion, "roles", true},
	"RoleBinding":        {rbacv1.SchemeGroupVersion, "rolebindings", true},
	"ClusterRole":        {rbacv1.SchemeGroupVersion, "clusterroles", false},
	"ClusterRoleBinding": {rbacv1.SchemeGroupVersion, "clusterrolebindings", false},
}

// render returns the objects of a control plane, the namespace first.
func render(config Config) ([]object, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := newData(config)
	if err != nil {
		return nil, err
	}
	return d.render(append([]string{namespaceFile}, otherFiles...)...)
}

// Owned returns a function that says whether an object is one that the Keeper
// of the control plane in a namespace writes.
func Owned(namespace string) (func(kind schema.GroupKind, namespace, name string) bool, error) {
	// The names depend on nothing but the namespace; everything that is optional is there.
	settings := linkerd.DefaultSettings()
	settings.ControlPlaneNamespace = namespace
	objects, err := render(Config{
		Settings: settings, Version: "v", ProxyVersion: "v", TrustAnchors: "a", Issuer: &KeyPair{}, Webhooks: &KeyPair{},
	})
	if err != nil {
		return nil, err
	}
	type id struct {
		kind            schema.GroupKind
		namespace, name string
	}
	owned := make(map[id]bool, len(objects))
	for _, o := range objects {
		owned[id{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}] = true
	}
	return func(kind schema.GroupKind, namespace, name string) bool { return owned[id{kind, namespace, name}] }, nil
}

// render returns the objects of some files, in their order.
func (d data) render(names ...string) ([]object, error) {
	templates, err := template.New("").Funcs(template.FuncMap{
		// A JSON string is a YAML string, whatever is in it.
		"json": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"base64": func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) },
		"list":   func(items ...string) []string { return items },
	}).ParseFS(files, "objects/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	var objects []object
	for _, name := range names {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, name, d); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(&b, 4096)
		for {
			u := &unstructured.Unstructured{}
			err := decoder.Decode(&u.Object)
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("decode %s: %w", name, err)
			}
			if len(u.Object) == 0 {
				continue
			}
			o, err := d.complete(u)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// complete adds what all objects of the control plane have.
func (d data) complete(u *unstructured.Unstructured) (object, error) {
	kind := u.GroupVersionKind()
	resource, ok := resources[kind.Kind]
	if !ok {
		return object{}, fmt.Errorf("kind %q is not known", kind.Kind)
	}
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["linkerd.io/control-plane-ns"] = d.ControlPlaneNamespace
	u.SetLabels(labels)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["linkerd.io/created-by"] = d.CreatedBy
	u.SetAnnotations(annotations)
	if resource.namespaced {
		u.SetNamespace(d.ControlPlaneNamespace)
	}
	return object{u, resource.version.WithResource(resource.name), resource.namespaced}, nil
}
