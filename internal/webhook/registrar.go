package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// FieldManager is the manager of the fields of the configurations that this package writes.
const FieldManager = "linkerd-lite-webhooks"

const (
	retryInterval = 10 * time.Millisecond
	// maxRetryInterval bounds the wait between two tries. It is short because the start of everything else waits.
	maxRetryInterval = 50 * time.Millisecond
	// complainAfter is when a registration that does not succeed is logged.
	complainAfter = 5 * time.Second
)

// Registrar tells the API server of the webhooks. The configurations hold an address and an authority, which another
// run may have had others of: it must run before anything else writes, or those writes fail.
type Registrar struct {
	config    *rest.Config
	namespace string
	hooks     []Hook
	server    *Server
	log       *slog.Logger
}

// NewRegistrar returns a registrar of hooks that server answers. Configurations of our other hooks are removed; without
// any hook server may be nil. Namespace is that of the control plane, for a label.
func NewRegistrar(config *rest.Config, namespace string, server *Server, log *slog.Logger, hooks ...Hook) *Registrar {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return &Registrar{config: config, namespace: namespace, server: server, hooks: hooks, log: log}
}

// Write makes the API server's configurations equal to the hooks. It retries until ctx ends.
func (r *Registrar) Write(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(r.config)
	if err != nil {
		return fmt.Errorf("client for webhook configurations: %w", err)
	}
	return r.retry(ctx, "write webhook configurations", func(ctx context.Context) error { return r.write(ctx, client) })
}

// Run writes the configurations, calls ready once the API server heeds all of them, and then waits for ctx to end.
func (r *Registrar) Run(ctx context.Context, ready func()) error {
	if err := r.Write(ctx); err != nil {
		return ended(ctx, err)
	}
	client, err := kubernetes.NewForConfig(r.config)
	if err != nil {
		return fmt.Errorf("client for webhook probes: %w", err)
	}
	heeded := map[string]bool{}
	if err := r.retry(ctx, "probe webhooks", func(ctx context.Context) error { return r.probe(ctx, client, heeded) }); err != nil {
		return ended(ctx, err)
	}
	ready()
	<-ctx.Done()
	return nil
}

// ended drops an error that comes from the end of ctx.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (r *Registrar) retry(ctx context.Context, what string, try func(context.Context) error) error {
	backoff := wait.Backoff{Duration: retryInterval, Factor: 1.5, Steps: 100, Cap: maxRetryInterval}
	start, complained := time.Now(), false
	var last error
	err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if last = try(ctx); last == nil {
			return true, nil
		}
		if !complained && time.Since(start) > complainAfter {
			r.log.Warn("cannot "+what+" yet, trying on", "error", last)
			complained = true
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, errors.Join(last, err))
	}
	return nil
}

func (r *Registrar) write(ctx context.Context, client kubernetes.Interface) error {
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	admission := client.AdmissionregistrationV1()
	for _, known := range []Hook{ServiceProfileHook(), PolicyHook(), InjectorHook()} {
		if r.wants(known.Configuration) {
			continue
		}
		var err error
		if known.Mutating {
			err = admission.MutatingWebhookConfigurations().Delete(ctx, known.Configuration, metav1.DeleteOptions{})
		} else {
			err = admission.ValidatingWebhookConfigurations().Delete(ctx, known.Configuration, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove %s: %w", known.Configuration, err)
		}
	}
	for _, hook := range r.hooks {
		var err error
		if hook.Mutating {
			_, err = admission.MutatingWebhookConfigurations().Apply(ctx, r.mutating(hook), options)
		} else {
			_, err = admission.ValidatingWebhookConfigurations().Apply(ctx, r.validating(hook), options)
		}
		if err != nil {
			return fmt.Errorf("apply %s: %w", hook.Configuration, err)
		}
	}
	return nil
}

func (r *Registrar) wants(configuration string) bool {
	for _, hook := range r.hooks {
		if hook.Configuration == configuration {
			return true
		}
	}
	return false
}

func (r *Registrar) labels(hook Hook) map[string]string {
	return map[string]string{linkerd.ControlPlaneComponentLabel: hook.Component, linkerd.ControlPlaneNSLabel: r.namespace}
}

func (r *Registrar) clientConfig(hook Hook) *applyv1.WebhookClientConfigApplyConfiguration {
	return applyv1.WebhookClientConfig().WithURL(r.server.URL(hook.Path)).WithCABundle(r.server.CABundle()...)
}

func (r *Registrar) validating(hook Hook) *applyv1.ValidatingWebhookConfigurationApplyConfiguration {
	webhook := applyv1.ValidatingWebhook().
		WithName(hook.Name).
		WithClientConfig(r.clientConfig(hook)).
		WithRules(rules(hook)...).
		WithFailurePolicy(admissionregistrationv1.Fail).
		WithSideEffects(admissionregistrationv1.SideEffectClassNone).
		WithAdmissionReviewVersions("v1", "v1beta1").
		WithNamespaceSelector(selector(hook.NamespaceSelector)).
		WithObjectSelector(selector(hook.ObjectSelector))
	if hook.TimeoutSeconds != 0 {
		webhook.WithTimeoutSeconds(hook.TimeoutSeconds)
	}
	return applyv1.ValidatingWebhookConfiguration(hook.Configuration).WithLabels(r.labels(hook)).WithWebhooks(webhook)
}

func (r *Registrar) mutating(hook Hook) *applyv1.MutatingWebhookConfigurationApplyConfiguration {
	webhook := applyv1.MutatingWebhook().
		WithName(hook.Name).
		WithClientConfig(r.clientConfig(hook)).
		WithRules(rules(hook)...).
		WithFailurePolicy(admissionregistrationv1.Fail).
		WithSideEffects(admissionregistrationv1.SideEffectClassNone).
		WithAdmissionReviewVersions("v1", "v1beta1").
		WithNamespaceSelector(selector(hook.NamespaceSelector)).
		WithObjectSelector(selector(hook.ObjectSelector))
	if hook.TimeoutSeconds != 0 {
		webhook.WithTimeoutSeconds(hook.TimeoutSeconds)
	}
	return applyv1.MutatingWebhookConfiguration(hook.Configuration).WithLabels(r.labels(hook)).WithWebhooks(webhook)
}

func rules(hook Hook) []*applyv1.RuleWithOperationsApplyConfiguration {
	var out []*applyv1.RuleWithOperationsApplyConfiguration
	for _, rule := range hook.Rules {
		config := applyv1.RuleWithOperations().
			WithOperations(rule.Operations...).
			WithAPIGroups(rule.APIGroups...).
			WithAPIVersions(rule.APIVersions...).
			WithResources(rule.Resources...)
		if rule.Scope != nil {
			config.WithScope(*rule.Scope)
		}
		out = append(out, config)
	}
	return out
}

func selector(selector *metav1.LabelSelector) *applymetav1.LabelSelectorApplyConfiguration {
	config := applymetav1.LabelSelector()
	if selector == nil {
		return config
	}
	for _, requirement := range selector.MatchExpressions {
		config.WithMatchExpressions(applymetav1.LabelSelectorRequirement().
			WithKey(requirement.Key).WithOperator(requirement.Operator).WithValues(requirement.Values...))
	}
	return config
}

// probe returns nil once the API server calls every hook. Names of hooks that it calls are added to heeded, and not
// probed again.
func (r *Registrar) probe(ctx context.Context, client kubernetes.Interface, heeded map[string]bool) error {
	namespace, err := r.probeNamespace(ctx, client)
	if err != nil {
		return err
	}
	if namespace == "" {
		r.log.Warn("webhooks not probed: every namespace has the label " + skipLabel + "=" + skipValue)
		return nil
	}
	for _, hook := range r.hooks {
		if hook.Probe == nil || heeded[hook.Name] {
			continue
		}
		called, err := hook.Probe(ctx, r.config, namespace)
		if err != nil {
			return fmt.Errorf("%s: %w", hook.Name, err)
		}
		if !called {
			return fmt.Errorf("%s: not called by the API server", hook.Name)
		}
		heeded[hook.Name] = true
	}
	return nil
}

// probeNamespace is a namespace whose objects the webhooks see, default if possible.
func (r *Registrar) probeNamespace(ctx context.Context, client kubernetes.Interface) (string, error) {
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list namespaces: %w", err)
	}
	if len(namespaces.Items) == 0 {
		return "", errors.New("no namespace exists")
	}
	found := ""
	for _, namespace := range namespaces.Items {
		if namespace.Labels[skipLabel] == skipValue || namespace.Status.Phase == corev1.NamespaceTerminating {
			continue
		}
		if found == "" || namespace.Name == metav1.NamespaceDefault {
			found = namespace.Name
		}
	}
	return found, nil
}
