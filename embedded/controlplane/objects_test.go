package controlplane

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

var update = flag.Bool("update", false, "write the golden files anew")

func testConfig() Config {
	return Config{
		Settings: linkerd.DefaultSettings(),
		Version:  "2.20.0+lite", ProxyVersion: "v2.359.0", TrustAnchors: "-----BEGIN CERTIFICATE-----\nroot\n-----END CERTIFICATE-----\n",
		Issuer:   &KeyPair{"issuer: certificate\n", "issuer \"key\"\n"},
		Webhooks: &KeyPair{"webhook certificate\n", "webhook key\n"},
		Replicas: 1,
	}
}

func rendered(t *testing.T, config Config) []object {
	t.Helper()
	objects, err := render(config)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestGolden(t *testing.T) {
	var b bytes.Buffer
	for _, o := range rendered(t, testConfig()) {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "---\n%s", text)
	}
	const golden = "testdata/objects.yaml"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestObjectsAreTyped finds misspelt fields, which an untyped object hides.
func TestObjectsAreTyped(t *testing.T) {
	types := map[string]func() any{
		"Namespace":          func() any { return &corev1.Namespace{} },
		"ServiceAccount":     func() any { return &corev1.ServiceAccount{} },
		"ConfigMap":          func() any { return &corev1.ConfigMap{} },
		"Secret":             func() any { return &corev1.Secret{} },
		"Service":            func() any { return &corev1.Service{} },
		"Deployment":         func() any { return &appsv1.Deployment{} },
		"Role":               func() any { return &rbacv1.Role{} },
		"RoleBinding":        func() any { return &rbacv1.RoleBinding{} },
		"ClusterRole":        func() any { return &rbacv1.ClusterRole{} },
		"ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} },
	}
	seen := map[string]bool{}
	for _, o := range rendered(t, testConfig()) {
		id := o.String()
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(types[o.GetKind()]()); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestWhatToolsLookFor holds the names of sections 2 to 4 and 7 of the layout.
func TestWhatToolsLookFor(t *testing.T) {
	var names []string
	for _, o := range rendered(t, testConfig()) {
		names = append(names, o.String())
		if o.GetLabels()["linkerd.io/control-plane-ns"] != "linkerd" || o.GetAnnotations()["linkerd.io/created-by"] == "" {
			t.Errorf("%s is not marked as the control plane's", o)
		}
	}
	for _, want := range []string{
		"Namespace linkerd",
		"ServiceAccount linkerd-destination", "ServiceAccount linkerd-identity", "ServiceAccount linkerd-proxy-injector",
		"Service linkerd-dst", "Service linkerd-dst-headless", "Service linkerd-policy", "Service linkerd-sp-validator",
		"Service linkerd-policy-validator", "Service linkerd-identity", "Service linkerd-identity-headless", "Service linkerd-proxy-injector",
		"Deployment linkerd-destination", "Deployment linkerd-identity", "Deployment linkerd-proxy-injector",
		"ConfigMap linkerd-config", "ConfigMap linkerd-identity-trust-roots",
		"Secret linkerd-identity-issuer", "Secret linkerd-sp-validator-k8s-tls", "Secret linkerd-policy-validator-k8s-tls", "Secret linkerd-proxy-injector-k8s-tls",
		"ClusterRole linkerd-linkerd-destination", "ClusterRole linkerd-policy", "ClusterRole linkerd-linkerd-identity", "ClusterRole linkerd-linkerd-proxy-injector",
		"ClusterRoleBinding linkerd-linkerd-destination", "ClusterRoleBinding linkerd-destination-policy",
		"ClusterRoleBinding linkerd-linkerd-identity", "ClusterRoleBinding linkerd-linkerd-proxy-injector",
		"Role remote-discovery", "Role ext-namespace-metadata-linkerd-config",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestSecretsOnlyOfWhatThereIs(t *testing.T) {
	config := testConfig()
	config.Issuer, config.Webhooks = nil, nil
	for _, o := range rendered(t, config) {
		if o.GetKind() == "Secret" {
			t.Errorf("%s without a key pair", o)
		}
	}
}

// The issuer's Secret has the type and the keys of its scheme, and the values
// say what the certificates are like (identity section 4).
func TestIssuerScheme(t *testing.T) {
	for _, test := range []struct {
		scheme, kind string
		keys         []string
	}{
		{"", "Opaque", []string{"crt.pem", "key.pem"}},
		{"linkerd.io/tls", "Opaque", []string{"crt.pem", "key.pem"}},
		{"kubernetes.io/tls", "kubernetes.io/tls", []string{"ca.crt", "tls.crt", "tls.key"}},
	} {
		config := testConfig()
		config.IssuerScheme, config.IssuanceLifetime, config.ClockSkewAllowance = test.scheme, time.Hour, time.Second
		for _, o := range rendered(t, config) {
			switch o.String() {
			case "Secret linkerd-identity-issuer":
				data, _, _ := unstructured.NestedMap(o.Object, "data")
				if got := slices.Sorted(maps.Keys(data)); o.Object["type"] != test.kind || !slices.Equal(got, test.keys) {
					t.Errorf("scheme %q: a Secret of type %v with %v", test.scheme, o.Object["type"], got)
				}
			case "ConfigMap linkerd-config":
				values, _, _ := unstructured.NestedString(o.Object, "data", "values")
				for _, want := range []string{"scheme: " + cmp.Or(test.scheme, "linkerd.io/tls"), "issuanceLifetime: 1h0m0s", "clockSkewAllowance: 1s"} {
					if !strings.Contains(values, want) {
						t.Errorf("scheme %q: no %q in the values", test.scheme, want)
					}
				}
			}
		}
	}
}

func TestWhereServicesLead(t *testing.T) {
	address := netip.MustParseAddrPort
	for _, test := range []struct {
		name                          string
		destination, policy, identity netip.AddrPort
		want                          map[string]string
	}{
		{name: "nowhere", want: map[string]string{"linkerd-dst": "8086", "linkerd-policy": "8090", "linkerd-identity": "8080"}},
		{
			name: "loopback", destination: address("127.0.0.1:1"), policy: address("127.0.0.1:2"), identity: address("[::1]:3"),
			want: map[string]string{"linkerd-dst": "8086", "linkerd-policy": "8090", "linkerd-identity": "8080"},
		},
		{
			name: "every address of the host", destination: address("0.0.0.0:1"), policy: address("0.0.0.0:2"), identity: address("[::]:3"),
			want: map[string]string{"linkerd-dst": "8086", "linkerd-policy": "8090", "linkerd-identity": "8080"},
		},
		{
			name: "this host", destination: address("192.0.2.1:1"), policy: address("192.0.2.1:2"), identity: address("192.0.2.1:3"),
			want: map[string]string{
				"linkerd-dst": "1", "linkerd-policy": "2", "linkerd-identity": "3",
				"process of destination": "192.0.2.1:1", "process of identity": "192.0.2.1:3",
			},
		},
		{
			name: "destination and policy apart", destination: address("192.0.2.1:1"), policy: address("192.0.2.2:2"),
			want: map[string]string{"linkerd-dst": "8086", "linkerd-policy": "8090", "linkerd-identity": "8080"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := testConfig()
			config.Destination, config.Policy, config.Identity = test.destination, test.policy, test.identity
			got := map[string]string{}
			for _, o := range rendered(t, config) {
				raw, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				switch o.GetKind() {
				case "Service":
					var service corev1.Service
					if err := json.Unmarshal(raw, &service); err != nil {
						t.Fatal(err)
					}
					if test.want[o.GetName()] != "" {
						got[o.GetName()] = service.Spec.Ports[0].TargetPort.String()
					}
				case "Deployment":
					var workload appsv1.Deployment
					if err := json.Unmarshal(raw, &workload); err != nil {
						t.Fatal(err)
					}
					template := workload.Spec.Template
					process := template.Annotations[kubelet.ProcessAnnotation]
					if process == "" {
						continue
					}
					got["process of "+strings.TrimPrefix(o.GetName(), "linkerd-")] = process
					port := int32(address(process).Port())
					if !slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool {
						return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port })
					}) {
						t.Errorf("port of %s is not declared", process)
					}
				}
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The keys that tools read (docs/rules/cluster.md, section 4), and those of the chart to
// whose structs the clients of 2.20 follow pointers: without them `linkerd inject` panics.
func TestValues(t *testing.T) {
	rulebook.Covers(t, "C5")
	config, err := testConfig().withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	text, err := config.values()
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"linkerdVersion", "clusterDomain", "clusterNetworks", "identityTrustDomain", "identityTrustAnchorsPEM", "cliVersion",
		"controllerReplicas", "highAvailability", "cniEnabled", "disableHeartBeat", "enableEndpointSlices", "disableIPv6", "webhookFailurePolicy",
		"policyController.logLevel", "policyController.probeNetworks", "identity.externalCA", "identity.serviceAccountTokenProjection",
		"identity.issuer.scheme", "identity.issuer.clockSkewAllowance", "identity.issuer.issuanceLifetime", "identity.issuer.tls.crtPEM",
		"proxy.image.name", "proxy.image.version", "proxy.ports.admin", "proxy.ports.control", "proxy.ports.inbound", "proxy.ports.outbound",
		"proxy.defaultInboundPolicy", "proxy.opaquePorts", "proxy.outboundTransportMode", "proxy.nativeSidecar", "proxy.await", "proxy.logLevel",
		"proxy.uid", "proxy.control.streams.initialTimeout", "proxy.control.streams.idleTimeout", "proxy.control.streams.lifetime",
		"proxy.inboundConnectTimeout", "proxy.outboundConnectTimeout", "proxy.inboundDiscoveryCacheUnusedTimeout",
		"proxy.outboundDiscoveryCacheUnusedTimeout", "proxyInit.ignoreInboundPorts", "proxyInit.ignoreOutboundPorts",
		"proxyInit.kubeAPIServerPorts", "proxyInit.skipSubnets", "egress.globalEgressNetworkNamespace",
		"profileValidator", "policyValidator", "proxyInjector",

		"debugContainer.image.name", "debugContainer.image.version", "proxy.metrics.hostnameLabels",
		"proxy.resources.cpu.request", "proxy.resources.memory.limit", "proxy.resources.ephemeral-storage.limit",
		"proxy.livenessProbe", "proxy.readinessProbe", "proxy.startupProbe", "proxy.runtime.workers", "proxy.tracing.collector.meshIdentity",
		"proxy.inbound.server.http2", "proxy.outbound.server.http2", "proxyInit.image", "proxyInit.resources", "proxyInit.xtMountPath",
		"networkValidator", "policyController.image", "policyController.resources", "podMonitor.controller", "podMonitor.proxy",
		"podMonitor.serviceMirror", "controller.podDisruptionBudget", "identity.kubeAPI", "proxyInjector.objectSelector",
	} {
		if _, found, err := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...); !found || err != nil {
			t.Errorf("no value %s (%v)", path, err)
		}
	}
	if strings.Contains(text, "null") {
		t.Errorf("a value is null:\n%s", text)
	}
	if strings.Contains(text, config.Issuer.Key) {
		t.Error("the values hold a private key")
	}
}

func BenchmarkRender(b *testing.B) {
	for b.Loop() {
		if _, err := render(testConfig()); err != nil {
			b.Fatal(err)
		}
	}
}
