package embedded

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// chartHooks is what cluster section 5 says.
const chartHooks = `
- configuration: linkerd-sp-validator-webhook-config
  name: linkerd-sp-validator.linkerd.io
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [linkerd.io], apiVersions: [v1alpha1, v1alpha2], resources: [serviceprofiles]}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled)
- configuration: linkerd-policy-validator-webhook-config
  name: linkerd-policy-validator.linkerd.io
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [policy.linkerd.io], apiVersions: ["*"], resources: [authorizationpolicies,
      httplocalratelimitpolicies, httproutes, networkauthentications, meshtlsauthentications, serverauthorizations, servers, egressnetworks]}
  - {operations: [CREATE, UPDATE], apiGroups: [gateway.networking.k8s.io], apiVersions: ["*"], resources: [httproutes, grpcroutes, tlsroutes, tcproutes]}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled)
- configuration: linkerd-proxy-injector-webhook-config
  name: linkerd-proxy-injector.linkerd.io
  mutating: true
  timeout: 10
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods, services], scope: Namespaced}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled),kubernetes.io/metadata.name notin (cert-manager,kube-system)
  objects: "!linkerd.io/cni-resource,!linkerd.io/control-plane-component"
`

// The webhooks are asked about what those of the chart are asked about.
func TestHooksAreTheCharts(t *testing.T) {
	type hook struct {
		Configuration, Name string
		Mutating            bool
		Timeout             int32
		Rules               []admissionregistrationv1.RuleWithOperations
		Namespaces, Objects string
	}
	text := func(selector *metav1.LabelSelector) string {
		if selector == nil {
			return ""
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.String()
	}
	var want, got []hook
	if err := yaml.UnmarshalStrict([]byte(chartHooks), &want); err != nil {
		t.Fatal(err)
	}
	for _, h := range allHooks() {
		got = append(got, hook{
			h.Configuration, h.Name, h.Mutating, h.TimeoutSeconds, h.Rules, text(h.NamespaceSelector), text(h.ObjectSelector),
		})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
