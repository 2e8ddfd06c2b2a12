package injector

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
)

// Hook is the injector as the chart registers it.
func Hook() webhook.Hook {
	return webhook.Hook{
		Configuration: "linkerd-proxy-injector-webhook-config",
		Name:          "linkerd-proxy-injector.linkerd.io",
		Component:     "proxy-injector",
		Mutating:      true,
		Path:          "/pods",
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "services"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{webhook.NotSkipped(), {
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "cert-manager"},
		}}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: linkerd.ControlPlaneComponentLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: linkerd.CNIResourceLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
		}},
		TimeoutSeconds: 10,
		Probe:          probeService,
	}
}
