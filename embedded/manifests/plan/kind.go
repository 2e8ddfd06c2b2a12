package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

// Kind is how the API server serves a kind. It is a value.
type Kind struct {
	GVR        schema.GroupVersionResource
	Namespaced bool
	// Status says that it has a status subresource.
	Status bool
}

// Kinds that have a meaning of their own.
var (
	NamespaceKind = schema.GroupKind{Kind: "Namespace"}
	CRDKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// CRDKey is the key of the CRD that brings a kind.
func CRDKey(k Kind) source.Key {
	return source.Key{Group: CRDKind.Group, Kind: CRDKind.Kind, Name: k.GVR.Resource + "." + k.GVR.Group}
}

// DefinedKind is the kind that a CRD brings.
func DefinedKind(crd *unstructured.Unstructured) (schema.GroupKind, bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: name}, name != ""
}

// undeletable are the namespaces that the API server does not let go.
func undeletable(key source.Key) bool {
	if key.GroupKind() != NamespaceKind {
		return false
	}
	switch key.Name {
	case "default", "kube-system", "kube-public", "kube-node-lease":
		return true
	}
	return false
}
