package webhook

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Paths of the endpoints.
const (
	ServiceProfilePath = "/serviceprofiles"
	PolicyPath         = "/policy"
	InjectorPath       = "/pods"
)

const (
	// skipLabel on a namespace, with the value disabled, keeps its objects from the webhooks.
	skipLabel = "config.linkerd.io/admission-webhooks"
	skipValue = "disabled"
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

// ServiceProfileHook is the validator of ServiceProfiles.
func ServiceProfileHook() Hook {
	hook := Hook{
		Configuration: "linkerd-sp-validator-webhook-config",
		Name:          "linkerd-sp-validator.linkerd.io",
		Component:     "destination",
		Path:          ServiceProfilePath,
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule([]string{"linkerd.io"}, []string{"v1alpha1", "v1alpha2"}, "serviceprofiles"),
		},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notSkipped}},
	}
	hook.Probe = refuses(hook.Name, "linkerd.io/v1alpha2", "ServiceProfile", "serviceprofiles", map[string]any{
		"routes": []any{map[string]any{"name": "probe", "condition": map[string]any{"method": "GET"}, "timeout": "10"}},
	})
	return hook
}

// PolicyHook is the validator of policies and routes.
func PolicyHook() Hook {
	hook := Hook{
		Configuration: "linkerd-policy-validator-webhook-config",
		Name:          "linkerd-policy-validator.linkerd.io",
		Component:     "destination",
		Path:          PolicyPath,
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule([]string{"policy.linkerd.io"}, []string{"*"}, "authorizationpolicies", "httplocalratelimitpolicies", "httproutes",
				"networkauthentications", "meshtlsauthentications", "serverauthorizations", "servers", "egressnetworks"),
			rule([]string{"gateway.networking.k8s.io"}, []string{"*"}, "httproutes", "grpcroutes", "tlsroutes", "tcproutes"),
		},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notSkipped}},
	}
	hook.Probe = refuses(hook.Name, "policy.linkerd.io/v1beta3", "Server", "servers", map[string]any{
		"podSelector": map[string]any{}, "port": int64(80), "accessPolicy": "probe",
	})
	return hook
}

// InjectorHook is the injector of proxies. Its probe is left to the injector.
func InjectorHook() Hook {
	return Hook{
		Configuration: "linkerd-proxy-injector-webhook-config",
		Name:          "linkerd-proxy-injector.linkerd.io",
		Component:     "proxy-injector",
		Mutating:      true,
		Path:          InjectorPath,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "services"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notSkipped, {
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "cert-manager"},
		}}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: linkerd.ControlPlaneComponentLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: linkerd.CNIResourceLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
		}},
		TimeoutSeconds: 10,
	}
}

// Skips reports whether the validating webhooks spare the objects of a namespace with these labels.
func Skips(namespaceLabels map[string]string) bool { return namespaceLabels[skipLabel] == skipValue }

// Hooks are all that there can be.
func Hooks() []Hook { return []Hook{ServiceProfileHook(), PolicyHook(), InjectorHook()} }

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

var notSkipped = metav1.LabelSelectorRequirement{Key: skipLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{skipValue}}

func rule(groups, versions []string, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: groups, APIVersions: versions, Resources: resources},
	}
}
