package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// roleWriters is how many roles are written at a time.
const roleWriters = 4

// ensureRoles creates the default roles and bindings of Kubernetes, and adds
// to existing ones what they lack, as the API server's own start hook does.
// Unlike that it ends when ctx does, and reads each kind with one request.
func ensureRoles(ctx context.Context, client kubernetes.Interface) error {
	existing, err := listRoles(ctx, client)
	if err != nil {
		return fmt.Errorf("default roles: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(roleWriters)
	// The adapters below take no context: stop between two of their requests.
	each := func(write func() error) {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return write()
		})
	}
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		each(func() error {
			owner := reconciliation.ClusterRoleRuleOwner{ClusterRole: &role}
			return reconcileRole(owner, existing, reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()})
		})
	}
	for _, binding := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		each(func() error {
			adapter := reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &binding}
			return reconcileBinding(adapter, existing, reconciliation.ClusterRoleBindingClientAdapter{Client: client.RbacV1().ClusterRoleBindings()})
		})
	}
	namespaces := client.CoreV1().Namespaces()
	for _, name := range slices.Sorted(maps.Keys(bootstrappolicy.NamespaceRoles())) {
		if err := ensureNamespace(ctx, client, name); err != nil {
			return fmt.Errorf("default roles: %w", err)
		}
		for _, role := range bootstrappolicy.NamespaceRoles()[name] {
			each(func() error {
				return reconcileRole(reconciliation.RoleRuleOwner{Role: &role}, existing, reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: namespaces})
			})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			each(func() error {
				return reconcileBinding(reconciliation.RoleBindingAdapter{RoleBinding: &binding}, existing, reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: namespaces})
			})
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("default roles: %w", err)
	}
	return nil
}

func ensureNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making namespace %s: %w", name, err)
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
	err := retry.OnError(retry.DefaultBackoff, retriable, func() error {
		_, err := options.Run()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", role.GetName(), err)
	}
	return nil
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
	err := retry.OnError(retry.DefaultBackoff, retriable, func() error {
		_, err := options.Run()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", binding.GetName(), err)
	}
	return nil
}

func retriable(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsServiceUnavailable(err)
}
