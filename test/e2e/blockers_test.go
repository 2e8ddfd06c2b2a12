package e2e

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// blocked are objects of one file that in a store would refuse or hold up whatever the
// program writes at its start, if that were treated as what users write. Those of a
// row do not keep each other from being applied.
type blocked struct {
	name     string
	objects  []blocker
	manifest string
}

type blocker struct{ group, resource, namespace, name string }

const admissionGroup = "admissionregistration.k8s.io"

var blockers = []blocked{
	{"webhooks of Services, quotas of nothing, and an API server that is not there", []blocker{
		{admissionGroup, "validatingwebhookconfigurations", "", "gone-validating"},
		{admissionGroup, "mutatingwebhookconfigurations", "", "gone-mutating"},
		{"", "resourcequotas", "linkerd", "nothing"},
		{"", "resourcequotas", "default", "nothing"},
		{"", "limitranges", "linkerd", "impossible"},
		{"apiregistration.k8s.io", "apiservices", "", "v1.foo.example.com"},
	}, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gone-validating}
webhooks:
- name: validating.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: gatekeeper-system, name: w}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: gone-mutating}
webhooks:
- name: mutating.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: gatekeeper-system, name: w}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: nothing, namespace: linkerd}
spec: {hard: {configmaps: "0", secrets: "0", services: "0", pods: "0"}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: nothing, namespace: default}
spec: {hard: {services: "0"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: impossible, namespace: linkerd}
spec: {limits: [{type: Container, min: {cpu: "1000"}}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.foo.example.com}
spec:
  group: foo.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: default, name: nothing}
`},
	{"policies that refuse and spoil everything", []blocker{
		{admissionGroup, "validatingadmissionpolicybindings", "", "never"},
		{admissionGroup, "validatingadmissionpolicies", "", "never"},
		{admissionGroup, "mutatingadmissionpolicybindings", "", "spoil"},
		{admissionGroup, "mutatingadmissionpolicies", "", "spoil"},
	}, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: never}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]
  validations: [{expression: "false", message: not here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: never}
spec: {policyName: never, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: spoil}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/nothing"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: spoil}
spec: {policyName: spoil}
`},
	{"webhooks by URL, one for each kind that the start writes", []blocker{
		{admissionGroup, "validatingwebhookconfigurations", "", "gone-by-url"},
	}, goneByURL()},
}

// goneByURL is a configuration of webhooks that nobody answers.
func goneByURL() string {
	text := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: gone-by-url}\nwebhooks:\n"
	for i, kind := range [][2]string{
		{"", "namespaces"}, {"", "configmaps"}, {"", "secrets"}, {"", "services"}, {"", "serviceaccounts"}, {"", "pods"}, {"", "nodes"}, {"", "events"},
		{"apps", "deployments"}, {"rbac.authorization.k8s.io", "*"}, {"scheduling.k8s.io", "*"}, {"coordination.k8s.io", "leases"},
		{"apiextensions.k8s.io", "*"}, {"discovery.k8s.io", "*"}, {"policy.linkerd.io", "*/*"}, {"gateway.networking.k8s.io", "*/*"},
	} {
		text += fmt.Sprintf("- name: h%d.example.com\n  sideEffects: None\n  admissionReviewVersions: [v1]\n  clientConfig: {url: 'https://127.0.0.1:1/'}\n"+
			"  rules: [{apiGroups: [%q], apiVersions: ['*'], operations: [CREATE, UPDATE, DELETE], resources: [%q]}]\n", i, kind[0], kind[1])
	}
	return text
}

// stored reports whether any of the objects is there.
func (b blocked) stored(t *testing.T, p *process) bool {
	t.Helper()
	for _, o := range b.objects {
		if _, err := o.of(t, p).Get(t.Context(), o.name, metav1.GetOptions{}); err == nil {
			return true
		}
	}
	return false
}

func (b blocked) remove(t *testing.T, p *process) {
	t.Helper()
	for _, o := range b.objects {
		if err := o.of(t, p).Delete(t.Context(), o.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

func (o blocker) of(t *testing.T, p *process) dynamic.ResourceInterface {
	return p.dynamic(t).Resource(schema.GroupVersionResource{Group: o.group, Version: "v1", Resource: o.resource}).Namespace(o.namespace)
}
