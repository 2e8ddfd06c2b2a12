package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestOwned(t *testing.T) {
	rulebook.Covers(t, "B80")
	owned := Owned()
	const rbac = "rbac.authorization.k8s.io"
	for _, row := range []struct {
		group, kind, namespace, name string
		want                         bool
	}{
		{rbac, "ClusterRole", "", "view", true},
		{rbac, "ClusterRole", "", "system:controller:job-controller", true},
		{rbac, "ClusterRole", "", "system:metrics-server", false},
		{rbac, "ClusterRoleBinding", "", "cluster-admin", true},
		{rbac, "Role", "kube-system", "extension-apiserver-authentication-reader", true},
		{rbac, "Role", "default", "extension-apiserver-authentication-reader", false},
		{rbac, "RoleBinding", "kube-system", "system::leader-locking-kube-scheduler", true},
		{"scheduling.k8s.io", "PriorityClass", "", "system-node-critical", true},
		{"scheduling.k8s.io", "PriorityClass", "", "high", false},
		{"", "Service", "default", "kubernetes", true},
		{"", "Service", "other", "kubernetes", false},
		{"example.com", "Service", "default", "kubernetes", false},
		{"", "ConfigMap", "other", "kube-root-ca.crt", true},
		{"", "ConfigMap", "other", "own", false},
		{"", "ServiceAccount", "other", "default", false},
	} {
		if got := owned(schema.GroupKind{Group: row.group, Kind: row.kind}, row.namespace, row.name); got != row.want {
			t.Errorf("%s %s/%s: %v", row.kind, row.namespace, row.name, got)
		}
	}
}
