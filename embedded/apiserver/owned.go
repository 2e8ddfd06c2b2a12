package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// Owned returns which objects the API server and its controllers make by themselves
// in every cluster. Exports of clusters have them too.
func Owned() func(kind schema.GroupKind, namespace, name string) bool {
	owned := map[schema.GroupKind][]types.NamespacedName{}
	add := func(group, kind, namespace, name string) {
		gk := schema.GroupKind{Group: group, Kind: kind}
		owned[gk] = append(owned[gk], types.NamespacedName{Namespace: namespace, Name: name})
	}
	const rbac = "rbac.authorization.k8s.io"
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		add(rbac, "ClusterRole", "", role.Name)
	}
	for _, binding := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		add(rbac, "ClusterRoleBinding", "", binding.Name)
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, role := range roles {
			add(rbac, "Role", namespace, role.Name)
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			add(rbac, "RoleBinding", namespace, binding.Name)
		}
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		add("scheduling.k8s.io", "PriorityClass", "", class.Name)
	}
	add("", "Service", metav1.NamespaceDefault, "kubernetes")
	add("", "Endpoints", metav1.NamespaceDefault, "kubernetes")
	add("discovery.k8s.io", "EndpointSlice", metav1.NamespaceDefault, "kubernetes")
	add("", "ConfigMap", metav1.NamespaceSystem, "extension-apiserver-authentication")
	return func(kind schema.GroupKind, namespace, name string) bool {
		return kind == schema.GroupKind{Kind: "ConfigMap"} && name == "kube-root-ca.crt" ||
			slices.Contains(owned[kind], types.NamespacedName{Namespace: namespace, Name: name})
	}
}
