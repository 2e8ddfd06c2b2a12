package policy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestParseNetworks(t *testing.T) {
	for _, row := range []struct {
		name, list, want string
		bad              bool
	}{
		{name: "empty"},
		{name: "cluster networks", list: linkerd.DefaultClusterNetworks, want: "10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16"},
		{name: "probe networks", list: linkerd.DefaultProbeNetworks, want: "0.0.0.0/0 ::/0"},
		{name: "host bits, spaces and a bare address", list: " 10.0.0.1/24 , fd00::1", want: "10.0.0.1/24 fd00::1/128"},
		{name: "no address", list: "10.0.0.0/8,x", bad: true},
		{name: "prefix too long", list: "10.0.0.0/33", bad: true},
		{name: "empty item", list: "10.0.0.0/8,,", bad: true},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			got, err := ParseNetworks(row.list)
			if (err != nil) != row.bad {
				t.Fatalf("error %v, want one: %v", err, row.bad)
			}
			var texts []string
			for _, n := range got {
				texts = append(texts, n.String())
			}
			if diff := cmp.Diff(row.want, strings.Join(texts, " ")); !row.bad && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNetworkMessage(t *testing.T) {
	rulebook.Covers(t, "P107")
	got := Network(netip.MustParsePrefix("192.0.2.1/24"))
	if got.GetIp().GetIpv4() != 0xC0000201 || got.GetPrefixLen() != 24 {
		t.Errorf("%v", got)
	}
	got = Network(netip.MustParsePrefix("fd00::1/64"))
	if got.GetIp().GetIpv6().GetFirst() != 0xfd00<<48 || got.GetIp().GetIpv6().GetLast() != 1 || got.GetPrefixLen() != 64 {
		t.Errorf("IPv6: %v", got)
	}
}

func FuzzParseNetworks(f *testing.F) {
	f.Add("10.0.0.0/8,::/0")
	f.Add("::ffff:1.2.3.4/120,fe80::1%eth0")
	f.Fuzz(func(t *testing.T, list string) {
		networks, err := ParseNetworks(list)
		if err != nil {
			return
		}
		var texts []string
		for _, n := range networks {
			if !n.IsValid() || Network(n).GetIp() == nil {
				t.Fatalf("%q gives %v", list, n)
			}
			texts = append(texts, n.String())
		}
		again, err := ParseNetworks(strings.Join(texts, ","))
		if err != nil || !cmp.Equal(networks, again, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })) {
			t.Fatalf("%q is read as %v and then as %v: %v", list, networks, again, err)
		}
	})
}
