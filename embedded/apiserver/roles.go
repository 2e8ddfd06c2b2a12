package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// roleWriters is how many roles are written at a time.
const roleWriters = 4

// ensureRoles creates the default roles and bindings of Kubernetes, and adds
// to existing ones what they lack, as the API server's own start hook does.
// Unlike that it ends when ctx does, reads each kind with one request, and goes
// on after what is refused.
func ensureRoles(ctx context.Context, client kubernetes.Interface) []unwritten {
	existing, err := listRoles(ctx, client)
	if err != nil {
		return []unwritten{{kind: rbacKind("ClusterRole"), err: fmt.Errorf("default roles and bindings: %w", err)}}
	}
	w := roleWriter{ctx: ctx, existing: existing}
	w.group.SetLimit(roleWriters)
	rbac, namespaces := client.RbacV1(), client.CoreV1().Namespaces()
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		w.role("ClusterRole", reconciliation.ClusterRoleRuleOwner{ClusterRole: &role}, reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()})
	}
	for _, binding := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		w.binding("ClusterRoleBinding", reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &binding},
			reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()})
	}
	for _, name := range slices.Sorted(maps.Keys(bootstrappolicy.NamespaceRoles())) {
		w.result("Namespace", "", name, ensureNamespace(ctx, client, name))
		for _, role := range bootstrappolicy.NamespaceRoles()[name] {
			w.role("Role", reconciliation.RoleRuleOwner{Role: &role}, reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			w.binding("RoleBinding", reconciliation.RoleBindingAdapter{RoleBinding: &binding},
				reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
		}
	}
	if err := w.group.Wait(); err != nil {
		return append(w.refused, unwritten{kind: rbacKind("ClusterRole"), err: err})
	}
	return w.refused
}

// roleWriter writes a few roles and bindings at a time.
type roleWriter struct {
	ctx      context.Context
	group    lifecycle.Group
	existing *roles
	mu       sync.Mutex
	refused  []unwritten
}

func (w *roleWriter) role(kind string, role reconciliation.RuleOwner, client reconciliation.RuleOwnerModifier) {
	w.write(kind, role.GetNamespace(), role.GetName(), func() error { return reconcileRole(role, w.existing, client) })
}

func (w *roleWriter) binding(kind string, binding reconciliation.RoleBinding, client reconciliation.RoleBindingModifier) {
	w.write(kind, binding.GetNamespace(), binding.GetName(), func() error { return reconcileBinding(binding, w.existing, client) })
}

// write calls do, unless ctx has ended: the adapters of the reconciliation take
// no context, so the end comes between two of their requests.
func (w *roleWriter) write(kind, namespace, name string, do func() error) {
	w.group.Go("writer of "+kind+" "+name, func() error {
		if w.ctx.Err() == nil {
			w.result(kind, namespace, name, do())
		}
		return nil
	})
}

func (w *roleWriter) result(kind, namespace, name string, err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	gvk := rbacKind(kind)
	if kind == "Namespace" {
		gvk = corev1.SchemeGroupVersion.WithKind(kind)
	}
	w.refused = append(w.refused, unwritten{gvk, namespace, name, err})
}

func rbacKind(kind string) schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind(kind) }

func ensureNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// roles are the existing objects, by kind, namespace and name.
type roles struct {
	roles    map[roleKey]reconciliation.RuleOwner
	bindings map[roleKey]reconciliation.RoleBinding
}

type roleKey struct{ namespace, name string }

func listRoles(ctx context.Context, client kubernetes.Interface) (*roles, error) {
	found := &roles{roles: map[roleKey]reconciliation.RuleOwner{}, bindings: map[roleKey]reconciliation.RoleBinding{}}
	// From the server's cache: who else writes these now only adds.
	options := metav1.ListOptions{ResourceVersion: "0"}
	rbac := client.RbacV1()
	clusterRoles, err := rbac.ClusterRoles().List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range clusterRoles.Items {
		role := &clusterRoles.Items[i]
		found.roles[roleKey{"", role.Name}] = reconciliation.ClusterRoleRuleOwner{ClusterRole: role}
	}
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range clusterBindings.Items {
		binding := &clusterBindings.Items[i]
		found.bindings[roleKey{"", binding.Name}] = reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding}
	}
	for namespace := range bootstrappolicy.NamespaceRoles() {
		namespaceRoles, err := rbac.Roles(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range namespaceRoles.Items {
			role := &namespaceRoles.Items[i]
			found.roles[roleKey{namespace, role.Name}] = reconciliation.RoleRuleOwner{Role: role}
		}
	}
	for namespace := range bootstrappolicy.NamespaceRoleBindings() {
		bindings, err := rbac.RoleBindings(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range bindings.Items {
			binding := &bindings.Items[i]
			found.bindings[roleKey{namespace, binding.Name}] = reconciliation.RoleBindingAdapter{RoleBinding: binding}
		}
	}
	return found, nil
}

var (
	rolesResource    = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	bindingsResource = schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
)

// listedRole answers a first Get from the list.
type listedRole struct {
	reconciliation.RuleOwnerModifier
	listed reconciliation.RuleOwner
	asked  bool
}

func (l *listedRole) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	switch {
	case l.asked:
		return l.RuleOwnerModifier.Get(namespace, name)
	case l.listed == nil:
		l.asked = true
		return nil, apierrors.NewNotFound(rolesResource, name)
	default:
		l.asked = true
		return l.listed, nil
	}
}

func reconcileRole(role reconciliation.RuleOwner, existing *roles, client reconciliation.RuleOwnerModifier) error {
	options := reconciliation.ReconcileRoleOptions{
		Role:    role,
		Confirm: true,
		Client:  &listedRole{RuleOwnerModifier: client, listed: existing.roles[roleKey{role.GetNamespace(), role.GetName()}]},
	}
	return retry.OnError(retry.DefaultBackoff, retriable, func() error {
		_, err := options.Run()
		return err
	})
}

// listedBinding answers a first Get from the list.
type listedBinding struct {
	reconciliation.RoleBindingModifier
	listed reconciliation.RoleBinding
	asked  bool
}

func (l *listedBinding) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	switch {
	case l.asked:
		return l.RoleBindingModifier.Get(namespace, name)
	case l.listed == nil:
		l.asked = true
		return nil, apierrors.NewNotFound(bindingsResource, name)
	default:
		l.asked = true
		return l.listed, nil
	}
}

func reconcileBinding(binding reconciliation.RoleBinding, existing *roles, client reconciliation.RoleBindingModifier) error {
	options := reconciliation.ReconcileRoleBindingOptions{
		RoleBinding: binding,
		Confirm:     true,
		Client:      &listedBinding{RoleBindingModifier: client, listed: existing.bindings[roleKey{binding.GetNamespace(), binding.GetName()}]},
	}
	return retry.OnError(retry.DefaultBackoff, retriable, func() error {
		_, err := options.Run()
		return err
	})
}

func retriable(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsServiceUnavailable(err)
}
