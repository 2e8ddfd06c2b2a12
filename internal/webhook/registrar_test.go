package webhook

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// configurations is what cluster section 5 says, with failurePolicy Fail and a URL.
const configurations = `
- kind: ValidatingWebhookConfiguration
  name: linkerd-policy-validator-webhook-config
  webhook: linkerd-policy-validator.linkerd.io
  url: /policy
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [policy.linkerd.io], apiVersions: ["*"], resources: [authorizationpolicies, httplocalratelimitpolicies, httproutes, networkauthentications, meshtlsauthentications, serverauthorizations, servers, egressnetworks]}
  - {operations: [CREATE, UPDATE], apiGroups: [gateway.networking.k8s.io], apiVersions: ["*"], resources: [httproutes, grpcroutes, tlsroutes, tcproutes]}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled)
  objects: ""
- kind: ValidatingWebhookConfiguration
  name: linkerd-sp-validator-webhook-config
  webhook: linkerd-sp-validator.linkerd.io
  url: /serviceprofiles
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [linkerd.io], apiVersions: [v1alpha1, v1alpha2], resources: [serviceprofiles]}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled)
  objects: ""
- kind: MutatingWebhookConfiguration
  name: linkerd-proxy-injector-webhook-config
  webhook: linkerd-proxy-injector.linkerd.io
  url: /pods
  timeout: 10
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods, services], scope: Namespaced}
  namespaces: config.linkerd.io/admission-webhooks notin (disabled),kubernetes.io/metadata.name notin (cert-manager,kube-system)
  objects: "!linkerd.io/cni-resource,!linkerd.io/control-plane-component"
`

type configuration struct {
	Kind, Name, Webhook, URL string
	Timeout                  int32
	Rules                    []admissionregistrationv1.RuleWithOperations
	Namespaces, Objects      string
}

func registrar(server *Server, hooks ...Hook) *Registrar {
	return NewRegistrar(RegistrarConfig{Own: &rest.Config{}, User: &rest.Config{}, Namespace: "linkerd", Server: server, Hooks: hooks})
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
	all := registrar(server, Hooks()...)
	for range 2 { // the second time over what the first wrote
		if err := all.write(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, client, server)); diff != "" {
		t.Error(diff)
	}

	policyOnly := registrar(server, PolicyHook())
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
	off := map[string]string{skipLabel: skipValue}
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
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			client := fake.NewClientset()
			for _, namespace := range test.namespaces {
				if err := client.Tracker().Add(namespace); err != nil {
					t.Fatal(err)
				}
			}
			got, err := registrar(nil).probeNamespace(t.Context(), client)
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
