package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/policy/admission"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// An object is judged by the webhooks that would be asked about it.
func TestJudge(t *testing.T) {
	const (
		badServer  = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web, namespace: ns}\nspec: {port: 80, podSelector: {}, accessPolicy: x}"
		badProfile = "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: web.ns.svc.cluster.local, namespace: ns}\n" +
			"spec: {routes: [{name: r, condition: {method: GET}, timeout: '10'}]}"
		oddProfile = "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: web, namespace: ns}"
	)
	disabled := map[string]string{"config.linkerd.io/admission-webhooks": "disabled"}
	for _, test := range []struct {
		name, object string
		namespace    map[string]string
		want         []string
	}{
		{"a Server", badServer, nil, []string{`error: Server ns/web: spec.accessPolicy: "x" is not one of`}},
		{"A04 a Server whose namespace has no webhooks", badServer, disabled, nil},
		{"another value of the label", badServer, map[string]string{"config.linkerd.io/admission-webhooks": "enabled"}, []string{"error: Server ns/web: "}},
		{"a version that is not served any more", strings.Replace(badServer, "v1beta3", "v1alpha1", 1), nil, []string{"error: Server ns/web: "}},
		{"a profile", badProfile, nil, []string{`error: ServiceProfile ns/web.ns.svc.cluster.local: spec.routes[0].timeout: route "r"`}},
		{"a profile whose namespace has no webhooks", badProfile, disabled, nil},
		{"a profile that is odd", oddProfile, nil, []string{`warning: ServiceProfile ns/web: metadata.name: "web" is not the name of a service`}},
		{"a version that no rule names", strings.Replace(badProfile, "v1alpha2", "v1", 1), nil, nil},
		{"a namespace of its own does not name", strings.Replace(
			"apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: a}\nspec: {targetRef: {kind: Namespace, name: NS}, requiredAuthenticationRefs: []}",
			"NS", "default", 1), nil, nil},
		{"a kind that nobody checks", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", nil, nil},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			var got []string
			for _, p := range New(Config{ClusterDomain: "cluster.local"}).Judge(object(t, test.object), func() map[string]string { return test.namespace }) {
				got = append(got, string(p.Severity)+": "+p.String())
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Error(cmp.Diff(test.want, got))
			}
		})
	}
}

// Labels of a namespace cost a request: they are read where they decide.
func TestLabelsAreReadOnDemand(t *testing.T) {
	good := object(t, "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web}\nspec: {port: 80, podSelector: {}}")
	New(Config{}).Judge(good, func() map[string]string {
		t.Error("read for an object that nothing is wrong with")
		return nil
	})
}

// What the rules name is what the checks know.
func TestRulesAndChecksAgree(t *testing.T) {
	known := map[string][]string{
		"linkerd.io":                {"ServiceProfile"},
		"gateway.networking.k8s.io": {"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"},
		"policy.linkerd.io": {
			"AuthorizationPolicy", "HTTPLocalRateLimitPolicy", "HTTPRoute", "NetworkAuthentication", "MeshTLSAuthentication",
			"ServerAuthorization", "Server", "EgressNetwork",
		},
	}
	checks, named := New(Config{}), 0
	for _, hook := range checks.Hooks() {
		for _, rule := range hook.Rules {
			named += len(rule.Resources)
		}
	}
	for group, kinds := range known {
		for _, kind := range kinds {
			named--
			gvk := schema.GroupVersionKind{Group: group, Version: "v1alpha2", Kind: kind}
			resource, _ := meta.UnsafeGuessKindToResource(gvk)
			if !slices.ContainsFunc(checks.Hooks(), func(h webhook.Hook) bool { return h.Covers(resource) }) {
				t.Errorf("no rule names %s", resource)
			}
			if group != "linkerd.io" && !admission.Knows(gvk.GroupKind()) {
				t.Errorf("%s is not checked", gvk)
			}
		}
	}
	if named != 0 {
		t.Errorf("the rules name %d resources more than there are kinds", named)
	}
}

// A check that panics refuses the object, as the webhook does.
func TestPanic(t *testing.T) {
	checks := New(Config{})
	policy := slices.IndexFunc(checks, func(c Check) bool { return c.Endpoint.Name == "policy" })
	checks[policy].judge = func(*unstructured.Unstructured, string, []byte) []problems.Problem { panic("no such field") }
	found := checks.Judge(object(t, "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web, namespace: ns}"), func() map[string]string { return nil })
	if len(found) != 1 || found[0].Severity != problems.Error || !strings.Contains(found[0].String(), "Server ns/web: a fault of linkerd-lite") {
		t.Errorf("%v", found)
	}
}
