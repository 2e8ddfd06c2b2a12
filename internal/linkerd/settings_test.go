package linkerd

import (
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Proxies know the chart's networks, IPv6 included. Policy has them where
// IPv6 is on; else it has those of its own flag.
func TestClusterNetworks(t *testing.T) {
	rulebook.Covers(t, "H4")
	const four = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16"
	standard := DefaultSettings().ClusterNetworks
	for _, test := range []struct {
		networks        Networks
		policy, proxies string
		ipv6            bool
	}{
		{networks: standard, policy: four, proxies: four + ",fd00::/8"},
		{networks: standard, policy: four + ",fd00::/8", proxies: four + ",fd00::/8", ipv6: true},
		{networks: MustParseNetworks("10.0.0.0/8"), policy: "10.0.0.0/8", proxies: "10.0.0.0/8", ipv6: true},
	} {
		settings := DefaultSettings()
		settings.ClusterNetworks, settings.EnableIPv6 = test.networks, test.ipv6
		if got := settings.PolicyNetworks().String(); got != test.policy {
			t.Errorf("%+v: policy has %s", test, got)
		}
		if got := settings.ProxyNetworks().String(); got != test.proxies {
			t.Errorf("%+v: proxies have %s", test, got)
		}
	}
}

// Lists keep the text that they were read from, and a bad one changes nothing.
func TestListsKeepTheirText(t *testing.T) {
	networks, ports := MustParseNetworks("10.0.0.0/8"), MustParsePortList("80")
	for _, test := range []struct {
		networks, ports string
		bad             bool
	}{
		{networks: " 10.0.0.1/24 ,fd00::1", ports: "80, 90-91,"},
		{},
		{networks: "everywhere", ports: "http", bad: true},
	} {
		before := networks.String() + ";" + ports.String()
		errNetworks, errPorts := networks.UnmarshalText([]byte(test.networks)), ports.UnmarshalText([]byte(test.ports))
		if (errNetworks != nil) != test.bad || (errPorts != nil) != test.bad {
			t.Errorf("%+v: %v, %v", test, errNetworks, errPorts)
		}
		want := test.networks + ";" + test.ports
		if test.bad {
			want = before
		}
		if got := networks.String() + ";" + ports.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
