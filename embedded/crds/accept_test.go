package crds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// admit does with an object what the API server does before admission: defaults, pruning, validation.
func admit(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, version string, object map[string]any) field.ErrorList {
	t.Helper()
	for _, candidate := range crd.Spec.Versions {
		if candidate.Name != version {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(candidate.Schema.OpenAPIV3Schema, props, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(props)
		if err != nil {
			t.Fatal(err)
		}
		if errs := structuralschema.ValidateStructural(field.NewPath("schema"), structural); len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		defaulting.Default(object, structural)
		pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{})
		validator, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			t.Fatal(err)
		}
		errs := validation.ValidateCustomResource(nil, object, validator)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, object)...)
		if len(errs) == 0 {
			rules, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(t.Context(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
			errs = append(errs, rules...)
		}
		return errs
	}
	t.Fatalf("%s has no version %s", crd.Name, version)
	return nil
}

func TestAccept(t *testing.T) {
	const (
		serverName  = "servers.policy.linkerd.io"
		authzName   = "serverauthorizations.policy.linkerd.io"
		meshName    = "meshtlsauthentications.policy.linkerd.io"
		policyRoute = "httproutes.policy.linkerd.io"
		route       = "httproutes.gateway.networking.k8s.io"
		grpcRoute   = "grpcroutes.gateway.networking.k8s.io"
		tcpRoute    = "tcproutes.gateway.networking.k8s.io"
		profile     = "serviceprofiles.linkerd.io"
		workload    = "externalworkloads.workload.linkerd.io"
	)
	tests := []struct {
		name, crd, version, spec string
		ok                       bool
	}{
		{"P01 server", serverName, "v1beta3", `{podSelector: {}, port: 80}`, true},
		{"P05 server with both selectors", serverName, "v1beta3", `{podSelector: {}, externalWorkloadSelector: {}, port: 80}`, false},
		{"server without selector", serverName, "v1beta2", `{port: 80}`, false},
		{"server without port", serverName, "v1beta3", `{podSelector: {}}`, false},
		{"old server with an empty selector", serverName, "v1alpha1", `{podSelector: {}, port: 80}`, false},
		{"old server with labels", serverName, "v1alpha1", `{podSelector: {matchLabels: {a: b}}, port: http}`, true},
		{"server with a bad operator", serverName, "v1beta3", `{podSelector: {matchExpressions: [{key: a, operator: Is}]}, port: 80}`, false},
		{"P03 server of unknown protocol is left to admission", serverName, "v1beta3", `{podSelector: {}, port: 80, proxyProtocol: garbanzo}`, true},
		{"server with a port of another type", serverName, "v1beta3", `{podSelector: {}, port: 1.5}`, false},
		{"authorization by name", authzName, "v1beta1", `{server: {name: a}, client: {unauthenticated: true}}`, true},
		{"authorization by name and labels", authzName, "v1beta1", `{server: {name: a, selector: {}}, client: {}}`, false},
		{"authorization of nothing", authzName, "v1alpha1", `{server: {}, client: {}}`, false},
		{"authorization of a SPIFFE identity", authzName, "v1beta1", `{server: {name: a}, client: {meshTLS: {identities: ["spiffe://a/b"]}}}`, false},
		{"P14 authorization policy without refs", "authorizationpolicies.policy.linkerd.io", "v1alpha1", `{targetRef: {kind: Server, name: a}}`, false},
		{"P23 identities", meshName, "v1alpha1", `{identities: [example.id]}`, true},
		{"P24 no identities", meshName, "v1alpha1", `{}`, false},
		{"empty identities", meshName, "v1alpha1", `{identities: []}`, false},
		{"P25 identities and references", meshName, "v1alpha1", `{identities: [a], identityRefs: [{kind: ServiceAccount, name: a}]}`, false},
		{"reference without name", meshName, "v1alpha1", `{identityRefs: [{kind: ServiceAccount}]}`, true},
		{"P40 empty networks are left to admission", "egressnetworks.policy.linkerd.io", "v1alpha1", `{trafficPolicy: Allow, networks: []}`, true},
		{"negative rate is left to admission", "httplocalratelimitpolicies.policy.linkerd.io", "v1alpha1", `{targetRef: {kind: Server, name: a}, total: {requestsPerSecond: -1}}`, true},
		{"policy route with timeouts", policyRoute, "v1beta3", `{rules: [{timeouts: {request: 1h30m}}]}`, true},
		{"policy route with a bad timeout", policyRoute, "v1beta3", `{rules: [{timeouts: {request: soon}}]}`, false},
		{"policy route that changes responses of a rule", policyRoute, "v1beta3", `{rules: [{filters: [{type: ResponseHeaderModifier}]}]}`, false},
		{"policy route that changes responses of a backend", policyRoute, "v1beta3", `{rules: [{backendRefs: [{name: a, filters: [{type: ResponseHeaderModifier}]}]}]}`, true},
		{"policy route that redirects by 303", policyRoute, "v1beta2", `{rules: [{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 303}}]}]}`, false},
		{"policy route with two equal headers", policyRoute, "v1beta3", `{rules: [{matches: [{headers: [{name: a, value: a}, {name: a, value: b}]}]}]}`, false},
		{"old policy route", policyRoute, "v1alpha1", `{rules: [{backendRefs: [{port: 70000}]}], parentRefs: [{name: a, port: 70000}]}`, true},
		{"new policy route with that port", policyRoute, "v1beta2", `{parentRefs: [{name: a, port: 70000}]}`, false},
		{"P51 route with a relative path", route, "v1", `{rules: [{matches: [{path: {value: foo/bar}}]}]}`, false},
		{"route with an encoded slash", route, "v1", `{rules: [{matches: [{path: {value: /a%2fb}}]}]}`, false},
		{"route with a regular expression", route, "v1", `{rules: [{matches: [{path: {type: RegularExpression, value: "a[/]"}}]}]}`, true},
		{"P56 route to a Service without port", route, "v1", `{rules: [{backendRefs: [{name: a}]}]}`, false},
		{"P54 route to another kind without port", route, "v1", `{rules: [{backendRefs: [{group: a.b, kind: C, name: a}]}]}`, true},
		{"P53 route with filters", route, "v1", `{rules: [{filters: [{type: URLRewrite, urlRewrite: {hostname: a.b}}, {type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}]}]}`, true},
		{"route whose filter is of another type", route, "v1", `{rules: [{filters: [{type: URLRewrite, requestRedirect: {}}]}]}`, false},
		{"route with two equal filters", route, "v1", `{rules: [{filters: [{type: RequestRedirect, requestRedirect: {}}, {type: RequestRedirect, requestRedirect: {}}]}]}`, false},
		{"P58 route with a long backend timeout", route, "v1", `{rules: [{timeouts: {request: 10s, backendRequest: 20s}}]}`, false},
		{"route without a limit for requests", route, "v1", `{rules: [{timeouts: {request: 0s, backendRequest: 20s}}]}`, true},
		{"route with one parent twice", route, "v1beta1", `{parentRefs: [{name: a}, {name: a}]}`, false},
		{"route with two ports of a parent", route, "v1", `{parentRefs: [{name: a, port: 1}, {name: a, port: 2}]}`, true},
		{"gRPC route of nothing", grpcRoute, "v1", `{}`, true},
		{"gRPC route of a bad method", grpcRoute, "v1", `{rules: [{matches: [{method: {method: a.b}}]}]}`, false},
		{"gRPC route without method and service", grpcRoute, "v1", `{rules: [{matches: [{method: {}}]}]}`, false},
		{"TCP route without rules", tcpRoute, "v1alpha2", `{}`, false},
		{"P57 TCP route with two rules is left to admission", tcpRoute, "v1alpha2", `{rules: [{}, {}]}`, true},
		{"V01 empty profile", profile, "v1alpha2", `{}`, true},
		{"old profile without routes", profile, "v1alpha1", `{}`, false},
		{"V32 profile with not as object", profile, "v1alpha2", `{routes: [{name: a, condition: {not: {method: GET}}}]}`, false},
		{"V33 profile with not as list", profile, "v1alpha2", `{routes: [{name: a, condition: {not: [{method: GET}]}}]}`, true},
		{"V67 profile with a ttl alone", profile, "v1alpha2", `{retryBudget: {ttl: 10s}}`, false},
		{"V70 profile with weights", profile, "v1alpha2", `{dstOverrides: [{authority: a, weight: 500m}, {weight: 1}]}`, true},
		{"V71 profile with a bad weight", profile, "v1alpha2", `{dstOverrides: [{weight: abc}]}`, false},
		{"V73 profile with opaque ports", profile, "v1alpha2", `{opaquePorts: ["3306"]}`, true},
		{"V74 profile with opaque ports as map", profile, "v1alpha2", `{opaquePorts: {"3306": {}}}`, false},
		{"workload with two addresses", workload, "v1beta1", `{meshTLS: {identity: a, serverName: b}, workloadIPs: [{ip: 192.0.2.1}, {ip: "2001:db8::1"}]}`, true},
		{"old workload with two addresses", workload, "v1alpha1", `{meshTls: {identity: a, serverName: b}, workloadIPs: [{ip: 192.0.2.1}, {ip: "2001:db8::1"}]}`, false},
	}
	builtin, err := Builtin(true)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range builtin {
		byName[crd.Name] = crd
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			errs := admit(t, byName[test.crd], test.version, object(t, test.spec))
			if (len(errs) == 0) != test.ok {
				t.Errorf("errors %v, want accepted %v", errs, test.ok)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	tests := []struct{ name, crd, version, spec, want string }{
		{
			"server", "servers.policy.linkerd.io", "v1beta3", `{podSelector: {}, port: 80, other: 1}`,
			`{podSelector: {}, port: 80, accessPolicy: deny, proxyProtocol: unknown}`,
		},
		{
			"policy route without rules", "httproutes.policy.linkerd.io", "v1beta3", `{parentRefs: [{name: a}]}`,
			`{parentRefs: [{name: a, group: policy.linkerd.io, kind: Gateway}], rules: [{matches: [{path: {type: PathPrefix, value: /}}]}]}`,
		},
		{
			"policy route", "httproutes.policy.linkerd.io", "v1beta3",
			`{rules: [{backendRefs: [{name: a}], filters: [{type: RequestRedirect, requestRedirect: {}}]}]}`,
			`{rules: [{backendRefs: [{name: a, group: "", kind: Service, weight: 1}], filters: [{type: RequestRedirect, requestRedirect: {statusCode: 302}}],
				matches: [{path: {type: PathPrefix, value: /}}]}]}`,
		},
		{
			"nested conditions keep their fields", "serviceprofiles.linkerd.io", "v1alpha2",
			`{routes: [{name: a, other: 1, condition: {any: [{method: GET, other: 1}]}}]}`,
			`{routes: [{name: a, condition: {any: [{method: GET, other: 1}]}}]}`,
		},
		{
			"external workload", "externalworkloads.workload.linkerd.io", "v1beta1",
			`{meshTLS: {identity: a, serverName: b}, ports: [{port: 80}]}`,
			`{meshTLS: {identity: a, serverName: b}, ports: [{port: 80, protocol: TCP}]}`,
		},
	}
	builtin, err := Builtin(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			for _, crd := range builtin {
				if crd.Name != test.crd {
					continue
				}
				got := object(t, test.spec)
				if errs := admit(t, crd, test.version, got); len(errs) > 0 {
					t.Fatal(errs)
				}
				if diff := cmp.Diff(object(t, test.want)["spec"], got["spec"]); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func object(t *testing.T, spec string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("{metadata: {name: a}, spec: " + spec + "}"))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
