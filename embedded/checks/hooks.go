package checks

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
)

// serviceProfileHook is the validator of ServiceProfiles, as the chart registers it.
func serviceProfileHook() webhook.Hook {
	hook := webhook.Hook{
		Configuration: "linkerd-sp-validator-webhook-config",
		Name:          "linkerd-sp-validator.linkerd.io",
		Component:     "destination",
		Path:          "/serviceprofiles",
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule([]string{"linkerd.io"}, []string{"v1alpha1", "v1alpha2"}, "serviceprofiles"),
		},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{webhook.NotSkipped()}},
	}
	hook.Probe = webhook.Refuses(hook.Name, "linkerd.io/v1alpha2", "ServiceProfile", "serviceprofiles", map[string]any{
		"routes": []any{map[string]any{"name": "probe", "condition": map[string]any{"method": "GET"}, "timeout": "10"}},
	})
	return hook
}

// policyHook is the validator of policies and routes, as the chart registers it.
func policyHook() webhook.Hook {
	hook := webhook.Hook{
		Configuration: "linkerd-policy-validator-webhook-config",
		Name:          "linkerd-policy-validator.linkerd.io",
		Component:     "destination",
		Path:          "/policy",
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule([]string{"policy.linkerd.io"}, []string{"*"}, "authorizationpolicies", "httplocalratelimitpolicies", "httproutes",
				"networkauthentications", "meshtlsauthentications", "serverauthorizations", "servers", "egressnetworks"),
			rule([]string{"gateway.networking.k8s.io"}, []string{"*"}, "httproutes", "grpcroutes", "tlsroutes", "tcproutes"),
		},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{webhook.NotSkipped()}},
	}
	hook.Probe = webhook.Refuses(hook.Name, "policy.linkerd.io/v1beta3", "Server", "servers", map[string]any{
		"podSelector": map[string]any{}, "port": int64(80), "accessPolicy": "probe",
	})
	return hook
}

func rule(groups, versions []string, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: groups, APIVersions: versions, Resources: resources},
	}
}
