package embedded

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Who wants to connect to a pod of the control plane is told where its APIs are.
func TestServedInstead(t *testing.T) {
	rulebook.Covers(t, "C7")
	addresses := map[string]string{"destination": "d:1", "policy": "p:1", "identity": "i:1", "admin": "a:1"}
	for _, row := range [][3]string{
		{"linkerd", "linkerd-destination-5f", "linkerd-destination is answered for at d:1, its policy API at p:1: give one of them to --api-addr"},
		{"linkerd", "linkerd-identity-5f", "linkerd-identity is answered for at i:1"},
		{"linkerd", "linkerd-proxy-injector-5f", "metrics of the whole control plane are at http://a:1/metrics"},
		{"default", "linkerd-destination-5f", ""},
	} {
		if got := servedInstead("linkerd", row[0], row[1], addresses); got != row[2] {
			t.Errorf("%s/%s: %q", row[0], row[1], got)
		}
	}
}

// A status that no running part writes can be given in a manifest.
func TestStatusOwners(t *testing.T) {
	route := schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	crd := schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	for _, test := range []struct {
		without           string
		route, deployment bool
	}{
		{"", true, true},
		{"status", false, true},
		{"controlplane", false, true},
		{"controllers", true, false},
		{"webhooks", true, true},
	} {
		o := &Config{Without: strings.Fields(test.without)}
		owners := o.statusOwners()
		_, gotRoute := owners[route]
		_, gotDeployment := owners[deployment]
		if _, ok := owners[crd]; !ok || gotRoute != test.route || gotDeployment != test.deployment {
			t.Errorf("without %q: a part writes the status of routes: %v, of Deployments: %v, of definitions: %v", test.without, gotRoute, gotDeployment, ok)
		}
	}
}
