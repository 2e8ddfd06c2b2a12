package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIdentityOptions(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", ""},
		{"--identity-issuer-dir=i --identity-trust-anchors-file=a", ""},
		{"--identity-issuer-dir=i --identity-trust-anchors-file=a --identity-scheme=kubernetes.io/tls", ""},
		{"--identity-issuance-lifetime=1h --identity-clock-skew-allowance=1s", ""},
		{"--identity-issuer-dir=i", "--identity-trust-anchors-file"},
		{"--identity-trust-anchors-file=a", "--identity-issuer-dir"},
		{"--identity-scheme=kubernetes.io/tls", "--identity-issuer-dir"},
		{"--identity-scheme=x", "linkerd.io/tls"},
		{"--identity-issuance-lifetime=0s", "positive"},
		{"--identity-clock-skew-allowance=-1s", "positive"},
	} {
		var o clusterOptions
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		err := flags.Parse(strings.Fields(test.args))
		if err == nil {
			err = o.complete()
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.args, err, test.want)
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
		{"core", false, true},
		{"controllers", true, false},
		{"webhooks", true, true},
	} {
		o := &clusterOptions{without: strings.Fields(test.without)}
		owners := o.statusOwners()
		_, gotRoute := owners[route]
		_, gotDeployment := owners[deployment]
		if _, ok := owners[crd]; !ok || gotRoute != test.route || gotDeployment != test.deployment {
			t.Errorf("without %q: a part writes the status of routes: %v, of Deployments: %v, of definitions: %v", test.without, gotRoute, gotDeployment, ok)
		}
	}
}
