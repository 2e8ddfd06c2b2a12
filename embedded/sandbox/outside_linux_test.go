package sandbox_test

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
)

// Connections to addresses that nobody has fail at once, and not only the first few.
func TestOutside(t *testing.T) {
	s := start(t)
	for id, redirect := range map[string]*sandbox.Redirect{"plain": nil, "meshed": {Inbound: 4143, Outbound: 4140}} {
		address := map[string]string{"plain": "10.244.0.5", "meshed": "10.244.0.6"}[id]
		if err := s.AddPod(t.Context(), sandbox.Pod{ID: id, Addresses: []netip.Addr{netip.MustParseAddr(address)}, Redirect: redirect}); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]sandbox.Place{
		"a pod without a proxy": {Pod: "plain"}, "a proxy": {Pod: "meshed", Side: sandbox.ProxySide}, "the host": {},
	} {
		for _, to := range []string{"203.0.113.7:80", "10.244.9.9:80"} {
			t.Run(name+" to "+to, func(t *testing.T) {
				// A packet that is sent again after a second hears of it, too.
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
				defer cancel()
				for n := range 50 {
					if said, err := dial(ctx, s, from, netip.MustParseAddrPort(to)); !errors.Is(err, syscall.ENETUNREACH) {
						t.Fatalf("connection %d: %q, %v", n, said, err)
					}
				}
			})
		}
	}
}
