package embedded

import (
	"slices"
	"testing"
)

// Pods that run have addresses of IPv4, and of IPv6 if the mesh knows it; Services of the same.
func TestRunRanges(t *testing.T) {
	for _, test := range []struct {
		name, pods, services   string
		ipv6                   bool
		wantPods, wantServices string // empty: refused
	}{
		{"IPv4 without the flag", DefaultPodCIDR, DefaultServiceCIDR, false, "10.244.0.0/16", "10.96.0.0/12"},
		{"both with it", DefaultPodCIDR, DefaultServiceCIDR, true, DefaultPodCIDR, DefaultServiceCIDR},
		{"IPv4 pods alone", "10.1.0.0/16", DefaultServiceCIDR, true, "10.1.0.0/16", "10.96.0.0/12"},
		{"IPv6 pods alone", "fd00::/64", DefaultServiceCIDR, true, "fd00::/64", "fd00:10:96::/112"},
		{"IPv6 pods without the flag", "fd00::/64", DefaultServiceCIDR, false, "", ""},
		{"no Services of the pods' family", "10.1.0.0/16", "fd00:10:96::/112", true, "", ""},
	} {
		pods, err := parsePrefixes(test.pods)
		if err != nil {
			t.Fatal(err)
		}
		services, err := parsePrefixes(test.services)
		if err != nil {
			t.Fatal(err)
		}
		wantPods, _ := parsePrefixes(test.wantPods)
		wantServices, _ := parsePrefixes(test.wantServices)
		pods, services, err = runRanges(pods, services, test.ipv6)
		if !slices.Equal(pods, wantPods) || !slices.Equal(services, wantServices) || (err == nil) != (test.wantPods != "") {
			t.Errorf("%s: %v, %v, %v", test.name, pods, services, err)
		}
	}
}
