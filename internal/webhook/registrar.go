package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// FieldManager is the manager of the fields of the configurations that this package writes.
const FieldManager = "linkerd-lite-webhooks"

const (
	retryInterval = 10 * time.Millisecond
	// maxRetryInterval bounds the wait between two tries. It is short because the start of everything else waits.
	maxRetryInterval = 50 * time.Millisecond
	// slowRetryInterval is that once nobody waits any more.
	slowRetryInterval = time.Second
	// refusedPatience is how long the start of others waits while the API server refuses the probes, which it does as long
	// as a webhook or a policy of a user is in the way; failedPatience is that for all other failures.
	refusedPatience = 3 * time.Second
	failedPatience  = 30 * time.Second
)

// source is who says what keeps the webhooks from being called.
const source = "admission"

// RegistrarConfig is what a Registrar needs.
type RegistrarConfig struct {
	// Own is a client whose writes no policy of a user refuses; it writes the configurations. User is one like those of
	// users, whose writes pass the webhooks; it probes them.
	Own, User *rest.Config
	// Namespace is that of the control plane, for a label.
	Namespace string
	// Server answers the hooks; it may be nil without any.
	Server *Server
	// Hooks are those to register. Configurations of others in Known are removed.
	Hooks, Known []Hook
	// Problems gets what is in the way.
	Problems *problems.Table
	Log      *slog.Logger
}

// Registrar tells the API server of the webhooks, and puts back what others change of that. The configurations hold an
// address and an authority, which another run may have had others of: it must run before anything else writes, or those
// writes fail.
type Registrar struct {
	RegistrarConfig
}

// NewRegistrar returns a registrar; nothing is written before Run.
func NewRegistrar(config RegistrarConfig) *Registrar {
	for _, client := range []**rest.Config{&config.Own, &config.User} {
		*client = rest.CopyConfig(*client)
		(*client).QPS = -1
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Registrar{config}
}

// Run writes the configurations and calls ready once the API server heeds all of them, or is known to be kept from it:
// that is a problem then, and it goes on trying. It keeps the configurations until ctx ends.
func (r *Registrar) Run(ctx context.Context, ready func()) error {
	client, err := kubernetes.NewForConfig(r.Own)
	if err != nil {
		return fmt.Errorf("client for webhook configurations: %w", err)
	}
	user, err := kubernetes.NewForConfig(r.User)
	if err != nil {
		return fmt.Errorf("client for webhook probes: %w", err)
	}
	changes, stop, err := r.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	heeded, ready := map[string]bool{}, sync.OnceFunc(ready)
	written := func(ctx context.Context) error { return r.write(ctx, client) }
	probed := func(ctx context.Context) error { return r.probe(ctx, user, heeded) }
	if !r.persist(ctx, "write", written, ready) || !r.persist(ctx, "probe", probed, ready) {
		return nil
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
		}
		if !r.persist(ctx, "write", written, func() {}) {
			return nil
		}
	}
}

// persist calls try until it succeeds, and says whether it did before ctx ended. When the start of others should not
// wait any longer, it says so by release.
func (r *Registrar) persist(ctx context.Context, what string, try func(context.Context) error, release func()) bool {
	interval, start, released := retryInterval, time.Now(), false
	for {
		err := try(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			r.Problems.Say(source, what)
			return true
		}
		patience := failedPatience
		if refused(err) {
			patience = refusedPatience
		}
		if !released && time.Since(start) > patience {
			released = true
			r.Problems.Say(source, what, problems.Problem{
				Severity: problems.Error, Message: fmt.Sprintf("cannot %s the webhooks of the control plane: %v", what, err),
				Instead: "it is tried on, and until then objects may be stored unchecked",
			})
			release()
		}
		interval = min(interval*3/2, maxRetryInterval)
		if released {
			interval = slowRetryInterval
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(interval):
		}
	}
}

// refused says whether the API server has answered, and would not take an object: because of what a user's webhook, policy
// or definition says, or because it gets no answer of one.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err)
}

// watch returns a channel that has a value after each change of a configuration of ours. It ends with ctx, and stop waits
// for that.
func (r *Registrar) watch(ctx context.Context) (changed <-chan struct{}, stop func(), err error) {
	client, err := metadata.NewForConfig(r.Own)
	if err != nil {
		return nil, nil, fmt.Errorf("client for changes of webhook configurations: %w", err)
	}
	changes := make(chan struct{}, 1)
	notice := func(object any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil && r.wants(name) {
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		informer := factory.ForResource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource)).Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, object any) { notice(object) },
			DeleteFunc: notice,
		}); err != nil {
			return nil, nil, fmt.Errorf("watch webhook configurations: %w", err)
		}
	}
	factory.Start(ctx.Done())
	return changes, factory.Shutdown, nil
}

// write makes the API server's configurations equal to the hooks.
func (r *Registrar) write(ctx context.Context, client kubernetes.Interface) error {
	for _, known := range r.Known {
		if r.wants(known.Configuration) {
			continue
		}
		if err := remove(ctx, client, known); err != nil {
			return fmt.Errorf("remove %s: %w", known.Configuration, err)
		}
	}
	for _, hook := range r.Hooks {
		err := r.apply(ctx, client, hook)
		if apierrors.IsInvalid(err) {
			// Somebody has added to it what it cannot have beside ours: a Service beside our URL, for example.
			if err = remove(ctx, client, hook); err == nil {
				err = r.apply(ctx, client, hook)
			}
		}
		if err != nil {
			return fmt.Errorf("apply %s: %w", hook.Configuration, err)
		}
	}
	return nil
}

func (r *Registrar) apply(ctx context.Context, client kubernetes.Interface, hook Hook) (err error) {
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	if hook.Mutating {
		_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Apply(ctx, r.mutating(hook), options)
	} else {
		_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Apply(ctx, r.validating(hook), options)
	}
	return err
}

func remove(ctx context.Context, client kubernetes.Interface, hook Hook) (err error) {
	if hook.Mutating {
		err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, hook.Configuration, metav1.DeleteOptions{})
	} else {
		err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, hook.Configuration, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *Registrar) wants(configuration string) bool {
	for _, hook := range r.Hooks {
		if hook.Configuration == configuration {
			return true
		}
	}
	return false
}

func (r *Registrar) labels(hook Hook) map[string]string {
	return map[string]string{linkerd.ControlPlaneComponentLabel: hook.Component, linkerd.ControlPlaneNSLabel: r.Namespace}
}

func (r *Registrar) clientConfig(hook Hook) *applyv1.WebhookClientConfigApplyConfiguration {
	return applyv1.WebhookClientConfig().WithURL(r.Server.URL(hook.Path)).WithCABundle(r.Server.CABundle()...)
}

// validating and mutating have the same lines: the generated types that they fill share no interface.

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
		r.Log.Warn("webhooks not probed: the labels of every namespace keep its objects from one of them", "label", linkerd.AdmissionWebhooksLabel)
		return nil
	}
	for _, hook := range r.Hooks {
		if hook.Probe == nil || heeded[hook.Name] {
			continue
		}
		called, err := hook.Probe(ctx, r.User, namespace)
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
		skipped := slices.ContainsFunc(r.Hooks, func(hook Hook) bool { return !hook.Selects(nil, namespace.Labels) })
		if skipped || namespace.Status.Phase == corev1.NamespaceTerminating {
			continue
		}
		if found == "" || namespace.Name == metav1.NamespaceDefault {
			found = namespace.Name
		}
	}
	return found, nil
}
