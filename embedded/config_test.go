package embedded

import (
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Proxies know the chart's networks, IPv6 included. Policy has them where
// IPv6 is on; else it has those of its own flag.
func TestClusterNetworks(t *testing.T) {
	rulebook.Covers(t, "H4")
	const four = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16"
	for _, test := range []struct {
		networks, policy, proxies string
		ipv6                      bool
	}{
		{networks: DefaultControlPlane().ClusterNetworks, policy: four, proxies: four + ",fd00::/8"},
		{networks: DefaultControlPlane().ClusterNetworks, policy: four + ",fd00::/8", proxies: four + ",fd00::/8", ipv6: true},
		{networks: "10.0.0.0/8", policy: "10.0.0.0/8", proxies: "10.0.0.0/8", ipv6: true},
	} {
		config := DefaultControlPlane()
		config.ClusterNetworks, config.EnableIPv6 = test.networks, test.ipv6
		if got := config.policyNetworks(); got != test.policy {
			t.Errorf("%+v: policy has %s", test, got)
		}
		if got := config.proxyNetworks(); got != test.proxies {
			t.Errorf("%+v: proxies have %s", test, got)
		}
	}
}
