package source

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Key identifies an object whatever version it is written in.
type Key struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupKind is the key's kind.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// Object is the same for problems.
func (k Key) Object() problems.Object {
	return problems.Object{Group: k.Group, Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
}

// String is "Kind namespace/name"; kinds that are not Kubernetes' own carry
// their group, as the same kind exists in several.
func (k Key) String() string {
	var b strings.Builder
	b.WriteString(KindName(k.GroupKind()))
	b.WriteByte(' ')
	if k.Namespace != "" {
		b.WriteString(k.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(k.Name)
	return b.String()
}

// KindName is the kind, with the group unless it is Kubernetes' own.
func KindName(gk schema.GroupKind) string {
	own := !strings.Contains(gk.Group, ".") ||
		strings.HasSuffix(gk.Group, ".k8s.io") && gk.Group != "gateway.networking.k8s.io"
	if own {
		return gk.Kind
	}
	return gk.Kind + "." + gk.Group
}

// CompareKeys orders keys.
func CompareKeys(a, b Key) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
