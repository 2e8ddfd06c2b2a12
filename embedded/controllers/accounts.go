package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
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

// newTokens fills Secrets of type service-account-token, which outlive the pods
// that the tokens of the TokenRequest API are for.
func (m *Manager) newTokens(ctx context.Context, t *tools) (func(context.Context), error) {
	key, err := keyutil.PrivateKeyFromFile(m.config.AccountsKeyFile)
	if err != nil {
		return nil, fmt.Errorf("key for tokens of service accounts: %w", err)
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := t.factory.Core().V1()
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), t.client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: m.config.RootCA})
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func isTokenSecret(object any) bool {
	secret, ok := object.(*corev1.Secret)
	return ok && secret.Type == corev1.SecretTypeServiceAccountToken
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
