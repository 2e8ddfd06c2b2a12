package linkerd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestParseNetworks(t *testing.T) {
	for _, row := range []struct {
		name, list, want string
		bad              bool
	}{
		{name: "empty"},
		{name: "cluster networks", list: DefaultClusterNetworks, want: "10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16"},
		{name: "probe networks", list: DefaultProbeNetworks, want: "0.0.0.0/0 ::/0"},
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
			for _, n := range got.Ranges() {
				texts = append(texts, n.String())
			}
			if diff := cmp.Diff(row.want, strings.Join(texts, " ")); !row.bad && diff != "" {
				t.Error(diff)
			}
		})
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
		for _, n := range networks.Ranges() {
			if !n.IsValid() {
				t.Fatalf("%q gives %v", list, n)
			}
			texts = append(texts, n.String())
		}
		again, err := ParseNetworks(strings.Join(texts, ","))
		if err != nil || !cmp.Equal(networks.Ranges(), again.Ranges(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })) {
			t.Fatalf("%q is read as %v and then as %v: %v", list, networks, again, err)
		}
	})
}
