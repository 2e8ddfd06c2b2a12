package state

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A route of a newer Gateway API is skipped with one warning that
// names it, and its last good version stays; the routes next to it work.
func TestUndecodableRoutes(t *testing.T) {
	rulebook.Covers(t, "B69, P311")
	const gateway, grpc, policy = "gateway.networking.k8s.io/v1 HTTPRoute", "gateway.networking.k8s.io/v1 GRPCRoute", "policy.linkerd.io/v1beta3 HTTPRoute"
	for _, row := range []struct {
		name, kind, rule string
		good             bool
	}{
		{"plain", gateway, `{}`, true},
		{"every filter", gateway, `{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: a}}}, {type: URLRewrite}, {type: ExtensionRef}]}`, true},
		{"CORS filter", gateway, `{filters: [{type: CORS, cors: {}}]}`, false},
		{"CORS filter of a backend", gateway, `{backendRefs: [{name: a, port: 1, filters: [{type: CORS, cors: {}}]}]}`, false},
		{"path type", gateway, `{matches: [{path: {type: Glob, value: /a}}]}`, false},
		{"header type", gateway, `{matches: [{headers: [{type: Prefix, name: a, value: b}]}]}`, false},
		{"query type", gateway, `{matches: [{queryParams: [{type: Prefix, name: a, value: b}]}]}`, false},
		{"method", gateway, `{matches: [{method: QUERY}]}`, false},
		{"scheme", gateway, `{filters: [{type: RequestRedirect, requestRedirect: {scheme: ftp}}]}`, false},
		{"path modifier of a redirect", gateway, `{filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceRegex}}}]}`, false},
		{"path modifier", gateway, `{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceRegex}}}]}`, false},
		{"unknown fields", gateway, `{retry: {attempts: 3}, name: x}`, true},
		{"filter of the other group", policy, `{filters: [{type: URLRewrite}]}`, false},
		{"redirect", policy, `{filters: [{type: RequestRedirect, requestRedirect: {scheme: http, path: {type: ReplaceFullPath, replaceFullPath: /a}}}]}`, true},
		{"filter without content", policy, `{filters: [{type: RequestHeaderModifier, requestRedirect: {}}]}`, false},
		{"G8 backend without name", gateway, `{backendRefs: [{port: 80}]}`, false},
		{"G8 header without value", policy, `{matches: [{headers: [{name: a}]}]}`, false},
		{"G8 filter without type", grpc, `{filters: [{requestHeaderModifier: {}}]}`, false},
		{"G2 filter of a backend without content", policy, `{backendRefs: [{name: a, filters: [{type: ResponseHeaderModifier}]}]}`, true},
		{"G2 filter of a backend with the content of another", policy, `{backendRefs: [{name: a, filters: [{type: RequestHeaderModifier, requestRedirect: {}}]}]}`, true},
		{"G2 filter of a backend that is the Gateway API's", policy, `{backendRefs: [{name: a, filters: [{type: URLRewrite}]}]}`, true},
		{"G2 filter with other content than counts", policy, `{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {}, requestRedirect: {scheme: ftp}}]}`, true},
		{"filter of a backend", policy, `{backendRefs: [{name: a, filters: [{type: CORS}]}]}`, false},
		{"redirect without content", policy, `{filters: [{type: RequestRedirect}]}`, false},
		{"filters with content", policy, `{backendRefs: [{name: a, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {}}, {type: ResponseHeaderModifier, responseHeaderModifier: {}}]}]}`, true},
		{"filter without content in the other group", gateway, `{filters: [{type: RequestHeaderModifier}]}`, true},
		{"timeouts", policy, `{timeouts: {request: 1h30m, backendRequest: -1.5s}}`, true},
		{"empty timeout", policy, `{timeouts: {request: ""}}`, true},
		{"timeout in days", policy, `{timeouts: {request: 1d}}`, false},
		{"timeout in words", policy, `{timeouts: {request: 10s, backendRequest: 10 seconds}}`, false},
		{"timeout in days in the other group", gateway, `{timeouts: {request: 1d}}`, true},
		{"gRPC plain", grpc, `{matches: [{method: {type: Exact, service: a}, headers: [{type: Exact, name: a, value: b}]}]}`, true},
		{"gRPC method type", grpc, `{matches: [{method: {type: Prefix, service: a}}]}`, false},
		{"gRPC header type", grpc, `{matches: [{headers: [{type: Prefix, name: a, value: b}]}]}`, false},
		{"gRPC filter", grpc, `{filters: [{type: CORS}]}`, false},
		{"gRPC backend filter", grpc, `{backendRefs: [{name: a, port: 1, filters: [{type: CORS}]}]}`, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			kinds := map[string]*KindInfo{gateway: &HTTPRoutes.KindInfo, grpc: &GRPCRoutes.KindInfo, policy: &PolicyHTTPRoutes.KindInfo}
			kind := kinds[row.kind]
			s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{kind}, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			k := &sink{state: s, info: kind}
			route := func(name, version, rule string) *unstructured.Unstructured {
				apiVersion, kind, _ := strings.Cut(row.kind, " ")
				obj := map[string]any{}
				text := "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {namespace: ns, name: " + name + ", resourceVersion: '" + version + "'}, spec: {rules: [" + rule + "]}}"
				if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
					t.Fatal(err)
				}
				return &unstructured.Unstructured{Object: obj}
			}
			for _, err := range []error{
				k.Replace([]any{route("x", "1", `{}`), route("plain", "2", `{}`)}, "2"),
				k.Update(route("x", "3", row.rule)),
				k.Update(route("plain", "4", `{}`)),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			want := map[bool]string{true: "3", false: "1"}[row.good]
			if version, _, _ := s.ResourceVersion(kind.info().GVK.Group, kind.info().GVK.Kind, "ns", "x"); version != want {
				t.Errorf("the route is at version %s, want %s", version, want)
			}
			if version, _, _ := s.ResourceVersion(kind.info().GVK.Group, kind.info().GVK.Kind, "ns", "plain"); version != "4" {
				t.Errorf("the plain route is at version %s, want 4", version)
			}
			if lines := strings.Count(log.String(), "ns/x"); (lines == 1) == row.good {
				t.Errorf("log:\n%s", log.String())
			}
		})
	}
}
