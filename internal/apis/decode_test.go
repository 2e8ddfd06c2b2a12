package apis_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// TestDecode checks which specs decode, from JSON and from unstructured content alike.
func TestDecode(t *testing.T) {
	tests := []struct {
		name string
		into func() any
		yaml string
		ok   bool
	}{
		{"server", func() any { return &policyv1beta3.Server{} }, `{podSelector: {}, port: http, proxyProtocol: gRPC}`, true},
		{"server for external workloads", func() any { return &policyv1beta3.Server{} }, `{externalWorkloadSelector: {matchLabels: {a: b}}, port: 80}`, true},
		{"P03 server of unknown protocol", func() any { return &policyv1beta3.Server{} }, `{podSelector: {}, port: 80, proxyProtocol: garbanzo}`, false},
		{"server with port 0", func() any { return &policyv1beta3.Server{} }, `{podSelector: {}, port: 0}`, false},
		{"server with port 65536", func() any { return &policyv1beta3.Server{} }, `{podSelector: {}, port: 65536}`, false},
		{"P05 server with both selectors", func() any { return &policyv1beta3.Server{} }, `{podSelector: {}, externalWorkloadSelector: {}, port: 1}`, false},
		{"server without selector", func() any { return &policyv1beta3.Server{} }, `{port: 1}`, false},
		{"server with unknown operator", func() any { return &policyv1beta3.Server{} }, `{podSelector: {matchExpressions: [{key: a, operator: Is}]}, port: 1}`, false},
		{"server with numeric label", func() any { return &policyv1beta3.Server{} }, `{podSelector: {matchLabels: {a: 1}}, port: 1}`, false},
		{"server authorization", func() any { return &policyv1beta1.ServerAuthorization{} }, `{server: {name: a}, client: {networks: [{cidr: 10.0.0.1/24, except: [10.0.0.7]}]}}`, true},
		{"server authorization without client", func() any { return &policyv1beta1.ServerAuthorization{} }, `{server: {name: a}}`, false},
		{"P35 server authorization with bad cidr", func() any { return &policyv1beta1.ServerAuthorization{} }, `{server: {name: a}, client: {networks: [{cidr: 10.0.0.300/24}]}}`, false},
		{"P13 authorization policy without need", func() any { return &policyv1alpha1.AuthorizationPolicy{} }, `{targetRef: {kind: Server, name: a}, requiredAuthenticationRefs: []}`, true},
		{"P14 authorization policy without refs", func() any { return &policyv1alpha1.AuthorizationPolicy{} }, `{targetRef: {kind: Server, name: a}}`, false},
		{"mesh authentication", func() any { return &policyv1alpha1.MeshTLSAuthentication{} }, `{identityRefs: [{kind: ServiceAccount, name: a}]}`, true},
		{"mesh authentication without name", func() any { return &policyv1alpha1.MeshTLSAuthentication{} }, `{identityRefs: [{kind: ServiceAccount}]}`, false},
		{"P32 network of garbage", func() any { return &policyv1alpha1.NetworkAuthentication{} }, `{networks: [{cidr: 10.1.0.0/32/16}]}`, false},
		{"P38 network of one address", func() any { return &policyv1alpha1.NetworkAuthentication{} }, `{networks: [{cidr: "fd00::1"}]}`, true},
		{"network with a zone", func() any { return &policyv1alpha1.NetworkAuthentication{} }, `{networks: [{cidr: "fe80::1%eth0"}]}`, false},
		{"egress network", func() any { return &policyv1alpha1.EgressNetwork{} }, `{trafficPolicy: Allow}`, true},
		{"egress network of unknown policy", func() any { return &policyv1alpha1.EgressNetwork{} }, `{trafficPolicy: Maybe}`, false},
		{"rate limit", func() any { return &policyv1alpha1.HTTPLocalRateLimitPolicy{} }, `{targetRef: {group: policy.linkerd.io, kind: Server, name: a}, total: {requestsPerSecond: 4294967295}}`, true},
		{"rate limit above 32 bits", func() any { return &policyv1alpha1.HTTPLocalRateLimitPolicy{} }, `{targetRef: {kind: Server, name: a}, total: {requestsPerSecond: 4294967296}}`, false},
		{"negative rate limit", func() any { return &policyv1alpha1.HTTPLocalRateLimitPolicy{} }, `{targetRef: {kind: Server, name: a}, total: {requestsPerSecond: -1}}`, false},
		{"rate limit override without clients", func() any { return &policyv1alpha1.HTTPLocalRateLimitPolicy{} }, `{targetRef: {kind: Server, name: a}, overrides: [{requestsPerSecond: 1}]}`, false},
		{"profile", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{routes: [{name: a, condition: {any: [{method: GET}, {not: {pathRegex: /a}}]}}], dstOverrides: [{authority: a, weight: 500m}, {weight: 1}]}`, true},
		{"profile with opaque ports", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{opaquePorts: ["3306"]}`, true},
		{"profile with opaque ports as map", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{opaquePorts: {3306: {}}}`, true},
		{"profile with a weight of many digits as text", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{dstOverrides: [{authority: a, weight: "1E-01000000000"}]}`, false},
		{"profile with odd weights", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{dstOverrides: [{weight: 1Ei}, {weight: "1E3"}, {weight: "1e-003"}, {weight: null}]}`, true},
		{"profile with not as list", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{routes: [{name: a, condition: {not: [{method: GET}]}}]}`, false},
		{"profile with negative retries", func() any { return &linkerdv1alpha2.ServiceProfile{} }, `{retryBudget: {minRetriesPerSecond: -5, retryRatio: 0.2, ttl: 10s}}`, false},
		{"route", func() any { return &policyv1beta3.HTTPRoute{} }, `{parentRefs: [{name: a}], rules: [{timeouts: {request: 10s}}]}`, true},
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			data, err := yaml.YAMLToJSON([]byte("spec: " + test.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, test.into()); (err == nil) != test.ok {
				t.Errorf("from json: error %v, want ok %v", err, test.ok)
			}
			var content map[string]any
			if err := json.Unmarshal(data, &content); err != nil {
				t.Fatal(err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, test.into()); (err == nil) != test.ok {
				t.Errorf("from unstructured: error %v, want ok %v", err, test.ok)
			}
		})
	}
}
