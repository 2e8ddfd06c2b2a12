package webhook

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// configurations are what the API server is told of testHooks.
const configurations = `
- kind: ValidatingWebhookConfiguration
  name: policy-config
  webhook: policy.linkerd.io
  url: /policy
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [policy.linkerd.io], apiVersions: ["*"], resources: [servers]}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled)
  objects: ""
- kind: ValidatingWebhookConfiguration
  name: profiles-config
  webhook: profiles.linkerd.io
  url: /profiles
  namespaces: config.linkerd.io/admission-webhooks notin (disabled)
  objects: ""
- kind: MutatingWebhookConfiguration
  name: injector-config
  webhook: injector.linkerd.io
  url: /pods
  timeout: 10
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods, services], scope: Namespaced}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled),kubernetes.io/metadata.name notin (kube-system)
  objects: "!linkerd.io/cni-resource"
`

func testHooks() []Hook {
	notSkipped := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{NotSkipped()}}
	return []Hook{
		{
			Configuration: "policy-config", Name: "policy.linkerd.io", Path: "/policy", NamespaceSelector: notSkipped,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"policy.linkerd.io"}, APIVersions: []string{"*"}, Resources: []string{"servers"}},
			}},
		},
		{Configuration: "profiles-config", Name: "profiles.linkerd.io", Path: "/profiles", NamespaceSelector: notSkipped},
		{
			Configuration: "injector-config", Name: "injector.linkerd.io", Mutating: true, Path: "/pods", TimeoutSeconds: 10,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "services"},
					Scope: new(admissionregistrationv1.NamespacedScope),
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{NotSkipped(), {
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"},
			}}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: linkerd.CNIResourceLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
			}},
		},
	}
}

// A hook is asked about what its rules and selectors name.
func TestAsked(t *testing.T) {
	hooks := testHooks()
	policy, injector := &hooks[0], &hooks[2]
	off := labels.Set{linkerd.AdmissionWebhooksLabel: "disabled"}
	for _, test := range []struct {
		name              string
		hook              *Hook
		resource          schema.GroupVersionResource
		object, namespace labels.Set
		want              bool
	}{
		{"any version", policy, schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v9", Resource: "servers"}, nil, nil, true},
		{"another resource", policy, schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1", Resource: "httproutes"}, nil, nil, false},
		{"another group", policy, schema.GroupVersionResource{Version: "v1", Resource: "servers"}, nil, nil, false},
		{"another version", injector, schema.GroupVersionResource{Version: "v2", Resource: "pods"}, nil, nil, false},
		{"a namespace that is skipped", policy, schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1", Resource: "servers"}, nil, off, false},
		{"the label on the object", policy, schema.GroupVersionResource{Group: "policy.linkerd.io", Version: "v1", Resource: "servers"}, off, nil, true},
		{"an object that is spared", injector, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, labels.Set{linkerd.CNIResourceLabel: "true"}, nil, false},
		{"a namespace by name", injector, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, nil, labels.Set{corev1.LabelMetadataName: "kube-system"}, false},
		{"another namespace", injector, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, nil, labels.Set{corev1.LabelMetadataName: "ns"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.hook.Covers(test.resource) && test.hook.Selects(test.object, test.namespace); got != test.want {
				t.Errorf("asked: %v", got)
			}
		})
	}
}

type configuration struct {
	Kind, Name, Webhook, URL string
	Timeout                  int32
	Rules                    []admissionregistrationv1.RuleWithOperations
	Namespaces, Objects      string
}

func registrar(server *Server, hooks ...Hook) *Registrar {
	return NewRegistrar(RegistrarConfig{Own: &rest.Config{}, User: &rest.Config{}, Namespace: "linkerd", Server: server, Hooks: hooks, Known: testHooks()})
}

func TestWrite(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server, err := New(Config{Listener: listener, Client: newClient(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.certificates.load(); err != nil {
		t.Fatal(err)
	}
	var want []configuration
	if err := yaml.UnmarshalStrict([]byte(configurations), &want); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	all := registrar(server, testHooks()...)
	for range 2 { // the second time over what the first wrote
		if err := all.write(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, client, server)); diff != "" {
		t.Error(diff)
	}

	policyOnly := registrar(server, testHooks()[0])
	if err := policyOnly.write(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:1], read(t, client, server)); diff != "" {
		t.Error(diff)
	}
	none := registrar(nil)
	if err := none.write(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if got := read(t, client, server); len(got) > 0 {
		t.Errorf("left over: %v", got)
	}
}

func read(t *testing.T, client *fake.Clientset, server *Server) []configuration {
	t.Helper()
	var all []configuration
	add := func(kind, name string, webhook admissionregistrationv1.ValidatingWebhook, labels map[string]string) {
		t.Helper()
		url, ok := strings.CutPrefix(*webhook.ClientConfig.URL, server.URL(""))
		if !ok || string(webhook.ClientConfig.CABundle) != string(server.CABundle()) || webhook.ClientConfig.Service != nil {
			t.Errorf("%s: client config %v", name, webhook.ClientConfig)
		}
		if *webhook.FailurePolicy != admissionregistrationv1.Fail || *webhook.SideEffects != admissionregistrationv1.SideEffectClassNone ||
			!cmp.Equal(webhook.AdmissionReviewVersions, []string{"v1", "v1beta1"}) || labels["linkerd.io/control-plane-ns"] != "linkerd" {
			t.Errorf("%s: %v %v", name, webhook, labels)
		}
		c := configuration{
			Kind: kind, Name: name, Webhook: webhook.Name, URL: url, Rules: webhook.Rules,
			Namespaces: text(t, webhook.NamespaceSelector), Objects: text(t, webhook.ObjectSelector),
		}
		if webhook.TimeoutSeconds != nil {
			c.Timeout = *webhook.TimeoutSeconds
		}
		all = append(all, c)
	}
	validating, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range validating.Items {
		add("ValidatingWebhookConfiguration", item.Name, item.Webhooks[0], item.Labels)
	}
	mutating, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range mutating.Items {
		w := item.Webhooks[0]
		add("MutatingWebhookConfiguration", item.Name, admissionregistrationv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, SideEffects: w.SideEffects,
			AdmissionReviewVersions: w.AdmissionReviewVersions, NamespaceSelector: w.NamespaceSelector,
			ObjectSelector: w.ObjectSelector, TimeoutSeconds: w.TimeoutSeconds,
		}, item.Labels)
	}
	return all
}

func text(t *testing.T, selector *metav1.LabelSelector) string {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.String()
}

func TestProbeNamespace(t *testing.T) {
	namespace := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	off := map[string]string{linkerd.AdmissionWebhooksLabel: "disabled"}
	tests := []struct {
		name       string
		namespaces []*corev1.Namespace
		want       string
		ok         bool
	}{
		{"default", []*corev1.Namespace{namespace("a", nil), namespace("default", nil), namespace("z", nil)}, "default", true},
		{"A04 default without webhooks", []*corev1.Namespace{namespace("default", off), namespace("z", nil)}, "z", true},
		{"no namespace with webhooks", []*corev1.Namespace{namespace("default", off)}, "", true},
		{"no namespace yet", nil, "", false},
		{"one that a hook leaves out by name", []*corev1.Namespace{
			namespace("default", off), namespace("kube-system", map[string]string{corev1.LabelMetadataName: "kube-system"}), namespace("z", nil),
		}, "z", true},
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			client := fake.NewClientset()
			for _, namespace := range test.namespaces {
				if err := client.Tracker().Add(namespace); err != nil {
					t.Fatal(err)
				}
			}
			got, err := registrar(nil, testHooks()...).probeNamespace(t.Context(), client)
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
