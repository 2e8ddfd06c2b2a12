package webhook

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Hook is a webhook of the API server, the only one of its configuration.
type Hook struct {
	// Configuration is the name of the object, Name that of the webhook in it.
	Configuration, Name string
	// Component is the value of the label linkerd.io/control-plane-component.
	Component string
	// Mutating says that the webhook changes objects.
	Mutating          bool
	Path              string
	Rules             []admissionregistrationv1.RuleWithOperations
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	// TimeoutSeconds is 10 if zero.
	TimeoutSeconds int32
	// Probe tells whether the API server calls the webhook for objects of a namespace. A nil probe says yes.
	Probe func(ctx context.Context, config *rest.Config, namespace string) (bool, error)
}

// Covers reports whether the rules have a resource, in whatever operation.
func (h *Hook) Covers(resource schema.GroupVersionResource) bool {
	has := func(list []string, item string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, item)
	}
	return slices.ContainsFunc(h.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return has(rule.APIGroups, resource.Group) && has(rule.APIVersions, resource.Version) && has(rule.Resources, resource.Resource)
	})
}

// Selects reports whether the API server asks the webhook about an object with these labels in a namespace with those.
func (h *Hook) Selects(object, namespace labels.Set) bool {
	return selects(h.ObjectSelector, object) && selects(h.NamespaceSelector, namespace)
}

// selects takes a selector as the API server does in a webhook: none has no say, and who cannot read one asks.
func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || parsed.Matches(set)
}

// NotSkipped are the namespaces whose objects Linkerd's webhooks look at.
func NotSkipped() metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: linkerd.AdmissionWebhooksLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"disabled"}}
}

// Owns says whether an object is a configuration that a Registrar of these hooks writes.
func Owns(hooks []Hook, kind schema.GroupKind, name string) bool {
	return slices.ContainsFunc(hooks, func(hook Hook) bool {
		want := "ValidatingWebhookConfiguration"
		if hook.Mutating {
			want = "MutatingWebhookConfiguration"
		}
		return kind.Group == admissionregistrationv1.GroupName && kind.Kind == want && name == hook.Configuration
	})
}
