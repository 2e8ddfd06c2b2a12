package strict_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/apis/strict"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// What is missing or null where Linkerd's decoder wants a value.
func TestCheck(t *testing.T) {
	rulebook.Covers(t, "G8")
	type check func(*field.Path, any) *field.Error
	var (
		server        check = strict.Check[policyv1beta3.ServerSpec]
		authorization check = strict.Check[policyv1beta1.ServerAuthorizationSpec]
		route         check = strict.Check[gatewayv1.HTTPRouteSpec]
		grpc          check = strict.Check[gatewayv1.GRPCRouteSpec]
		tls           check = strict.Check[gatewayv1alpha2.TLSRouteSpec]
		limit         check = strict.Check[policyv1alpha1.HTTPLocalRateLimitPolicySpec]
		policy        check = strict.Check[policyv1alpha1.AuthorizationPolicySpec]
		networks      check = strict.Check[policyv1alpha1.NetworkAuthenticationSpec]
		mesh          check = strict.Check[policyv1alpha1.MeshTLSAuthenticationSpec]
	)
	for _, row := range []struct {
		name  string
		check check
		spec  string
		// want is the field that is missing or null, "" if the spec is complete.
		want string
	}{
		{"G8 parent without name", route, `{parentRefs: [{name: a}, {group: core, kind: Service}]}`, "spec.parentRefs[1].name"},
		{"G8 backend without name", route, `{rules: [{backendRefs: [{port: 80}]}]}`, "spec.rules[0].backendRefs[0].name"},
		{"G8 backend with a name that is null", grpc, `{rules: [{backendRefs: [{name: null, port: 80}]}]}`, "spec.rules[0].backendRefs[0].name"},
		{"G8 name in other letters", route, `{parentRefs: [{Name: a}]}`, "spec.parentRefs[0].name"},
		{"G8 mirror without backend", route, `{rules: [{filters: [{type: RequestMirror, requestMirror: {}}]}]}`, "spec.rules[0].filters[0].requestMirror.backendRef"},
		{"G8 header without value", route, `{rules: [{matches: [{headers: [{name: a}]}]}]}`, "spec.rules[0].matches[0].headers[0].value"},
		{"G8 header to add without name", route, `{rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{value: a}]}}]}]}`, "spec.rules[0].filters[0].requestHeaderModifier.add[0].name"},
		{"G8 removal that is null", route, `{rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [null]}}]}]}`, "spec.rules[0].filters[0].requestHeaderModifier.remove[0]"},
		{"G8 filter without type", grpc, `{rules: [{filters: [{}]}]}`, "spec.rules[0].filters[0].type"},
		{"G8 no rules of connections", tls, `{parentRefs: []}`, "spec.rules"},
		{"what is optional may be null", route, `{parentRefs: null, hostnames: null, rules: [{matches: [{path: null, headers: null}], timeouts: null, backendRefs: [{name: a, port: null, group: null}]}]}`, ""},
		{"nothing at all", route, `{}`, ""},
		{"G8 label that is null", server, `{podSelector: {matchLabels: {a: b, c: null}}, port: 80}`, "spec.podSelector.matchLabels[c]"},
		{"G8 requirement without key", server, `{podSelector: {matchExpressions: [{operator: Exists}]}, port: 80}`, "spec.podSelector.matchExpressions[0].key"},
		{"G8 value that is null", server, `{podSelector: {matchExpressions: [{key: a, operator: In, values: [null]}]}, port: 80}`, "spec.podSelector.matchExpressions[0].values[0]"},
		{"G8 no port", server, `{podSelector: {}}`, "spec.port"},
		{"G8 port that is null", server, `{podSelector: {}, port: null}`, "spec.port"},
		{"a server", server, `{podSelector: {}, port: http, accessPolicy: null, proxyProtocol: null}`, ""},
		{"G8 identity that is null", authorization, `{server: {name: null}, client: {meshTLS: {identities: [null]}}}`, "spec.client.meshTLS.identities[0]"},
		{"G8 account without name", authorization, `{server: {}, client: {meshTLS: {serviceAccounts: [{namespace: a}]}}}`, "spec.client.meshTLS.serviceAccounts[0].name"},
		{"G8 switch that is null", authorization, `{server: {}, client: {unauthenticated: null}}`, "spec.client.unauthenticated"},
		{"G8 no client", authorization, `{server: {}}`, "spec.client"},
		{"G8 except that is null", networks, `{networks: [{cidr: 10.0.0.0/8, except: [null]}]}`, "spec.networks[0].except[0]"},
		{"G8 network without cidr", networks, `{networks: [{}]}`, "spec.networks[0].cidr"},
		{"G8 no networks", networks, `{}`, "spec.networks"},
		{"G8 target without kind", limit, `{targetRef: {name: a}}`, "spec.targetRef.kind"},
		{"G8 client of a limit without name", limit, `{targetRef: {kind: Server, name: a}, overrides: [{requestsPerSecond: 1, clientRefs: [{kind: ServiceAccount}]}]}`, "spec.overrides[0].clientRefs[0].name"},
		{"G8 limit without number", limit, `{targetRef: {kind: Server, name: a}, total: {}}`, "spec.total.requestsPerSecond"},
		{"G8 required references that are null", policy, `{targetRef: {kind: Server, name: a}, requiredAuthenticationRefs: null}`, "spec.requiredAuthenticationRefs"},
		{"G8 reference without name", policy, `{targetRef: {kind: Server, name: a}, requiredAuthenticationRefs: [{kind: ServiceAccount}]}`, "spec.requiredAuthenticationRefs[0].name"},
		{"G8 identity of a mesh that is null", mesh, `{identities: [a, null]}`, "spec.identities[1]"},
		{"another type is the decoder's to refuse", server, `{podSelector: [], port: {}}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var spec any
			if err := yaml.Unmarshal([]byte(row.spec), &spec); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := row.check(field.NewPath("spec"), spec); err != nil {
				got = err.Field
			}
			if got != row.want {
				t.Errorf("missing %q, want %q", got, row.want)
			}
		})
	}
}
