package controlplane

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
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

// resources are those of the kinds in the files, so that nothing has to be
// asked of the API server's discovery.
var resources = map[string]struct {
	name       string
	namespaced bool
}{
	"Namespace":          {"namespaces", false},
	"ServiceAccount":     {"serviceaccounts", true},
	"ConfigMap":          {"configmaps", true},
	"Secret":             {"secrets", true},
	"Service":            {"services", true},
	"Deployment":         {"deployments", true},
	"Role":               {"roles", true},
	"RoleBinding":        {"rolebindings", true},
	"ClusterRole":        {"clusterroles", false},
	"ClusterRoleBinding": {"clusterrolebindings", false},
}

// render returns the objects of some files.
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
	labels["linkerd.io/control-plane-ns"] = d.Namespace
	u.SetLabels(labels)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["linkerd.io/created-by"] = d.CreatedBy
	u.SetAnnotations(annotations)
	if resource.namespaced {
		u.SetNamespace(d.Namespace)
	}
	return object{u, kind.GroupVersion().WithResource(resource.name), resource.namespaced}, nil
}
