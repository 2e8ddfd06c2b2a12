package embedded

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
