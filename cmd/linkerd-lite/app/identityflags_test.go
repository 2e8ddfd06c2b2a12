package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
		o := newClusterFlags()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		groups := newFlagGroups()
		o.addFlags(groups)
		for _, group := range groups.FlagSets {
			flags.AddFlagSet(group)
		}
		err := flags.Parse(strings.Fields(test.args))
		if err == nil {
			err = o.complete()
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.args, err, test.want)
		}
	}
}
