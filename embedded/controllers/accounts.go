package controllers

import (
	"context"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// newServiceAccounts makes the account "default" in each namespace; without it
// the API server refuses Pods (B47).
func newServiceAccounts(ctx context.Context, t *tools) (func(context.Context), error) {
	core := t.factory.Core().V1()
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), t.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func (m *Manager) newRootCA(_ context.Context, t *tools) (func(context.Context), error) {
	core := t.factory.Core().V1()
	c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), t.client, m.config.RootCA)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

// newRoleAggregation fills the default roles admin, edit and view.
func newRoleAggregation(_ context.Context, t *tools) (func(context.Context), error) {
	c := clusterroleaggregation.NewClusterRoleAggregation(t.factory.Rbac().V1().ClusterRoles(), t.client.RbacV1())
	return withWorkers(c.Run), nil
}
