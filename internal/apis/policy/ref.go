package policy

import "strings"

// The API groups that references may name.
const (
	Group        = "policy.linkerd.io"
	GatewayGroup = "gateway.networking.k8s.io"
)

// LocalTargetRef names an object in the namespace of the referring object.
type LocalTargetRef struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Group string `json:"group,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Targets tells whether the reference is to the kind, without regard to case.
func (r LocalTargetRef) Targets(group, kind string) bool {
	return targets(r.Group, r.Kind, group, kind)
}

// GroupKind is kind.group, or the kind alone if no group was given.
func (r LocalTargetRef) GroupKind() string { return groupKind(r.Group, r.Kind) }

// NamespacedTargetRef names an object, in the namespace of the referring object unless Namespace is set.
type NamespacedTargetRef struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Group string `json:"group,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace *string `json:"namespace,omitempty"`
}

// Targets tells whether the reference is to the kind, without regard to case.
func (r NamespacedTargetRef) Targets(group, kind string) bool {
	return targets(r.Group, r.Kind, group, kind)
}

// GroupKind is kind.group, or the kind alone if no group was given.
func (r NamespacedTargetRef) GroupKind() string { return groupKind(r.Group, r.Kind) }

// NamespaceOr is the namespace of the reference, fallback if it names none.
func (r NamespacedTargetRef) NamespaceOr(fallback string) string {
	if r.Namespace == nil || *r.Namespace == "" {
		return fallback
	}
	return *r.Namespace
}

func targets(refGroup, refKind, group, kind string) bool {
	return strings.EqualFold(coreGroup(refGroup), coreGroup(group)) && strings.EqualFold(refKind, kind)
}

// coreGroup names the group without a name, which may also be written "core".
func coreGroup(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

func groupKind(group, kind string) string {
	if group == "" {
		return kind
	}
	return kind + "." + group
}
