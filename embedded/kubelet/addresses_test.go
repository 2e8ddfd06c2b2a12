package kubelet

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// clock is a time that only moves when told to.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func (c *clock) pass(d time.Duration) { c.Time = c.Add(d) }

// open returns what a kubelet has after a start in which holders exist.
func open(t *testing.T, dir, cidr string, c *clock, holders map[types.UID]string) *addresses {
	t.Helper()
	l, remembered, err := openLedger(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a := newAddresses([]netip.Prefix{netip.MustParsePrefix(cidr)}, l, c.now)
	for user, addr := range holders {
		a.hold(user, []netip.Addr{netip.MustParseAddr(addr)})
	}
	if err := a.restore(remembered); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return a
}

func give(t *testing.T, a *addresses, user types.UID) string {
	t.Helper()
	addrs, err := a.allocate(user)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(addrs[0])
}

func TestAddressesRest(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	a := open(t, "", "10.0.0.0/29", c, nil) // .2 to .6
	node, err := a.allocateNode("node")
	if err != nil || node[0].String() != "10.0.0.6" {
		t.Fatalf("allocateNode() = %v, %v; want the last", node, err)
	}
	for i, want := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"} {
		if got := give(t, a, types.UID(fmt.Sprint(i))); got != want {
			t.Errorf("address %d = %s, want %s", i, got, want)
		}
	}
	if got := give(t, a, "0"); got != "10.0.0.2" {
		t.Errorf("second answer for one user = %s", got)
	}
	const exhausted = "no free address in pod range 10.0.0.0/29: "
	if got := give(t, a, "more"); !strings.HasPrefix(got, exhausted) {
		t.Errorf("full range gave %s", got)
	}
	a.release("1")
	c.pass(quarantine - time.Millisecond)
	if got := give(t, a, "more"); got != exhausted+"5 in use, 1 given up less than 1m0s ago" && !strings.HasPrefix(got, exhausted+"4 in use, 1 given up") {
		t.Errorf("address at rest: %s", got)
	}
	c.pass(time.Millisecond)
	if got := give(t, a, "more"); got != "10.0.0.3" {
		t.Errorf("address after its rest = %s", got)
	}
}

func TestLedgerOverRestart(t *testing.T) {
	for _, test := range []struct {
		name string
		// stop is what happens between the two runs.
		stop    func(t *testing.T, c *clock, path string)
		holders map[types.UID]string
		want    []string
	}{
		{
			"at once", func(*testing.T, *clock, string) {}, map[types.UID]string{"b": "10.0.0.3"},
			// .2 rests, .3 is held; the walk goes on behind .4, which was lost with its pod.
			[]string{"10.0.0.5", "10.0.0.6", "no free address"},
		},
		{
			"after a minute", func(_ *testing.T, c *clock, _ string) { c.pass(quarantine) }, map[types.UID]string{"b": "10.0.0.3"},
			// .4 was given away and is held no more: when it came back is unknown, so it rests from now.
			[]string{"10.0.0.5", "10.0.0.6", "10.0.0.2", "no free address"},
		},
		{
			"torn line", func(t *testing.T, _ *clock, path string) {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString("+ 10.0.0.6\n+ 10.0.0.5"); err != nil {
					t.Fatal(err)
				}
			}, map[types.UID]string{"b": "10.0.0.3"},
			[]string{"10.0.0.5", "no free address"},
		},
		{
			"file lost", func(t *testing.T, _ *clock, path string) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}, map[types.UID]string{"b": "10.0.0.3"},
			[]string{"10.0.0.2", "10.0.0.4"},
		},
		{
			"junk", func(t *testing.T, _ *clock, path string) {
				if err := os.WriteFile(path, []byte("\x00\n+\n- x y\n- 10.0.0.2 z\n? 10.0.0.2\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}, nil, []string{"10.0.0.2", "10.0.0.3"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, dir := &clock{time.Unix(1000, 0)}, t.TempDir()
			a := open(t, dir, "10.0.0.0/29", c, nil)
			for _, user := range []types.UID{"a", "b", "c"} {
				give(t, a, user)
			}
			a.release("a")
			test.stop(t, c, filepath.Join(dir, ledgerFile))
			a = open(t, dir, "10.0.0.0/29", c, test.holders)
			for i, want := range test.want {
				if got := give(t, a, types.UID(fmt.Sprintf("new-%d", i))); !strings.HasPrefix(got, want) {
					t.Errorf("address %d after the restart = %s, want %s", i, got, want)
				}
			}
		})
	}
}

func TestLedgerStaysSmall(t *testing.T) {
	c, dir := &clock{time.Unix(1000, 0)}, t.TempDir()
	a := open(t, dir, "10.0.0.0/8", c, nil)
	for i := range 20_000 {
		c.pass(10 * time.Millisecond)
		user := types.UID(fmt.Sprint(i))
		give(t, a, user)
		a.release(user)
	}
	content, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	// 6,000 addresses rest; each has one line, or three.
	if lines := strings.Count(string(content), "\n"); lines > 4*6001+ledgerLines {
		t.Errorf("the ledger has %d lines", lines)
	}
	if n := len(a.pools[0].released); n > 6000+1024 {
		t.Errorf("%d addresses are remembered as released", n)
	}
}

func TestHold(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	a := open(t, "", "10.0.0.0/29", c, nil)
	addr := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	a.hold("x", addr("10.0.0.2"))
	a.hold("y", addr("10.0.0.2")) // two manifests claim one address
	a.hold("z", addr("192.0.2.1"))
	a.release("x")
	if got := give(t, a, "new"); got != "10.0.0.3" {
		t.Errorf("address beside a doubly held one = %s", got)
	}
	if got := give(t, a, "z"); got != "10.0.0.4" {
		t.Errorf("address for one that is outside the range = %s", got)
	}
	a.hold("new", addr("10.0.0.5")) // somebody else wrote its status
	used, resting := a.counts()
	if diff := cmp.Diff([]int{3, 1}, []int{used, resting}); diff != "" {
		t.Errorf("used and resting (-want +got):\n%s", diff)
	}
}
