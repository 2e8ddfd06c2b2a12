package app

import (
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// What the help of proxy-env tells people to type is for one network: its proxies can
// listen beside each other, and a shell takes its lines.
func TestHelpOfProxyEnv(t *testing.T) {
	rulebook.Covers(t, "H5")
	var outbound []netip.AddrPort
	for _, match := range regexp.MustCompile(`--outbound-addr (\S+?)\)`).FindAllStringSubmatch(proxyEnvHelp, -1) {
		addr, err := netip.ParseAddrPort(strings.TrimSuffix(match[1], `"`))
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range outbound {
			if addr.Port() == other.Port() && (addr == other || addr.Addr().IsUnspecified() || other.Addr().IsUnspecified()) {
				t.Errorf("%v and %v cannot be listened on together", addr, other)
			}
		}
		outbound = append(outbound, addr)
	}
	if len(outbound) != 2 {
		t.Errorf("the example has outbound addresses %v", outbound)
	}
	for block := range strings.SplitSeq(proxyEnvHelp, "\n\n") {
		if !strings.HasPrefix(block, "  ") {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", block).CombinedOutput(); err != nil {
			t.Errorf("%v: %s in\n%s", err, out, block)
		}
	}
}
