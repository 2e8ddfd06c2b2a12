package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// start starts a sandbox of IPv4, or of both families.
func start(t *testing.T, families ...family) *sandbox.Sandbox {
	t.Helper()
	config := sandbox.Config{
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/64")},
	}
	config.Hosts = append(config.Hosts, netip.MustParseAddr("10.244.0.1"))
	for _, f := range families {
		if f == ipv6 {
			config.Hosts = append(config.Hosts, f.addr("10.244.0.1"))
		}
	}
	return sandboxtest.Start(t, config)
}

// family makes of the addresses of a test, which are of IPv4, those of a family.
type family string

const (
	ipv4 family = "IPv4"
	ipv6 family = "IPv6"
)

var (
	addresses = regexp.MustCompile(`(\d+\.\d+)\.(\d+\.\d+)(:\d+)?`)
	prefixes  = map[string]string{"10.244": "fd00:10:244::", "10.96": "fd00:10:96::", "169.254": "fd6c:6974:6500::"}
)

// text has the addresses of the family, with or without ports.
func (f family) text(text string) string {
	if f == ipv4 {
		return text
	}
	return addresses.ReplaceAllStringFunc(text, func(address string) string {
		parts := addresses.FindStringSubmatch(address)
		var to netip.Addr
		switch parts[1] + "." + parts[2] {
		case "0.0.0.0":
			to = netip.IPv6Unspecified()
		case "127.0.0.1":
			to = netip.IPv6Loopback()
		case "169.254.1.1":
			to = netip.MustParseAddr(prefixes[parts[1]] + "1")
		default:
			to = netip.MustParseAddr(prefixes[parts[1]] + strings.ReplaceAll(parts[2], ".", ":"))
		}
		if parts[3] == "" {
			return to.String()
		}
		return "[" + to.String() + "]" + parts[3]
	})
}

func (f family) addr(text string) netip.Addr         { return netip.MustParseAddr(f.text(text)) }
func (f family) addrPort(text string) netip.AddrPort { return netip.MustParseAddrPort(f.text(text)) }

// both are a pod's addresses.
func both(address string) []netip.Addr { return []netip.Addr{ipv4.addr(address), ipv6.addr(address)} }

// run runs a program and returns what it prints on standard output.
func run(t *testing.T, s *sandbox.Sandbox, p sandbox.Process) (string, sandbox.Exit) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.Env = append(p.Env, "PATH="+os.Getenv("PATH"))
	running, err := s.Run(t.Context(), p, null, w, os.Stderr)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), running.Wait()
}

func TestProcess(t *testing.T) {
	s := start(t)
	directory := t.TempDir()
	if err := os.WriteFile(directory+"/greeting", []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.AddPod(t.Context(), sandbox.Pod{ID: "a", Addresses: []netip.Addr{ipv4.addr("10.244.0.5")}}); err != nil {
		t.Fatal(err)
	}
	in := sandbox.Place{Pod: "a"}
	tests := []struct {
		name    string
		process sandbox.Process
		want    string
		exit    sandbox.Exit
	}{
		{"output", sandbox.Process{Args: []string{"echo", "x"}}, "x\n", sandbox.Exit{}},
		{"exit code", sandbox.Process{Args: []string{"sh", "-c", "exit 3"}}, "", sandbox.Exit{Code: 3}},
		{"signal", sandbox.Process{Args: []string{"sh", "-c", "sh -c 'kill -9 $$'"}}, "", sandbox.Exit{Code: 137}},
		{"first of its processes", sandbox.Process{Args: []string{"sh", "-c", "echo $$"}}, "1\n", sandbox.Exit{}},
		{"host name", sandbox.Process{Hostname: "web-0", Args: []string{"hostname"}}, "web-0\n", sandbox.Exit{}},
		{"directory", sandbox.Process{Dir: "/usr", Args: []string{"pwd"}}, "/usr\n", sandbox.Exit{}},
		{"mount over what there is", sandbox.Process{Mounts: []sandbox.Mount{{Source: directory + "/greeting", Target: "/etc/passwd"}}, Args: []string{"cat", "/etc/passwd"}}, "hello", sandbox.Exit{}},
		{"mount where nothing is", sandbox.Process{Mounts: []sandbox.Mount{{Source: directory, Target: "/var/run/secrets/x/y"}}, Args: []string{"cat", "/var/run/secrets/x/y/greeting"}}, "hello", sandbox.Exit{}},
		{"mount in a new directory of the root", sandbox.Process{Mounts: []sandbox.Mount{{Source: directory, Target: "/config/here"}}, Args: []string{"cat", "/config/here/greeting"}}, "hello", sandbox.Exit{}},
		{"read-only", sandbox.Process{Mounts: []sandbox.Mount{{Source: directory, Target: "/mnt", ReadOnly: true}}, Args: []string{"sh", "-c", "echo x 2>/dev/null >/mnt/greeting || echo refused"}}, "refused\n", sandbox.Exit{}},
		{"memory", sandbox.Process{Mounts: []sandbox.Mount{{Target: "/mnt"}}, Args: []string{"sh", "-c", "echo x >/mnt/x && cat /mnt/x"}}, "x\n", sandbox.Exit{}},
		{"address", sandbox.Process{Place: in, Args: []string{"ip", "-br", "-4", "addr", "show", "eth0"}}, "10.244.0.5/32", sandbox.Exit{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, exit := run(t, s, test.process)
			if !strings.Contains(out, test.want) || exit != test.exit {
				t.Errorf("%q, %+v; want %q, %+v", out, exit, test.want, test.exit)
			}
		})
	}
	if _, err := os.Stat("/config"); err == nil {
		t.Error("/config came to be outside")
	}
}

// A process ends with all that it has started, and the sandbox ends with all processes.
func TestEnds(t *testing.T) {
	s := start(t)
	if err := s.AddPod(t.Context(), sandbox.Pod{ID: "a", Addresses: []netip.Addr{ipv4.addr("10.244.0.5")}}); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	running, err := s.Run(t.Context(), sandbox.Process{
		Place: sandbox.Place{Pod: "a"}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Args: []string{"sh", "-c", "setsid sleep 1000 & echo up; wait"},
	}, r, w, w)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	// The shell does not handle it, so it ends as it would outside.
	if err := running.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := running.Wait(); exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v", exit)
	}
	if _, err := lines.ReadString('\n'); !errors.Is(err, io.EOF) {
		t.Errorf("somebody still has the output: %v", err)
	}
}

// dial connects from a pod and returns what the other side says.
func dial(ctx context.Context, s *sandbox.Sandbox, from sandbox.Place, to netip.AddrPort) (string, error) {
	c, err := s.Dial(ctx, from, to, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	said, err := io.ReadAll(c)
	return string(said), err
}

// answer says what a client came from, and where it wanted to go.
func answer(t *testing.T, l net.Listener, name string) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s: from %s to %s", name, c.RemoteAddr().(*net.TCPAddr).IP, originalDestination(c.(*net.TCPConn)))
			c.Close()
		}
	}()
}

// originalDestination is where a connection wanted to go before rules led it elsewhere.
func originalDestination(c *net.TCPConn) string {
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	to := ""
	err = raw.Control(func(fd uintptr) {
		if c.LocalAddr().(*net.TCPAddr).IP.To4() == nil {
			address, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST) // begins with an address
			if err != nil {
				to = err.Error()
				return
			}
			port := address.Addr.Port
			to = netip.AddrPortFrom(netip.AddrFrom16(address.Addr.Addr), port<<8|port>>8).String()
			return
		}
		// The C structure has the size of this one, whose name is for something else.
		address, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
		if err != nil {
			to = err.Error()
			return
		}
		b := address.Multiaddr
		to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])).String()
	})
	if err != nil {
		return err.Error()
	}
	return to
}

func TestNetwork(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		t.Run(string(f), func(t *testing.T) { testNetwork(t, f) })
	}
}

func testNetwork(t *testing.T, f family) {
	s := start(t, f)
	ctx := t.Context()
	pods := map[string]string{"a": "10.244.0.5", "b": "10.244.0.6"}
	for id, address := range pods {
		if err := s.AddPod(ctx, sandbox.Pod{ID: id, Addresses: []netip.Addr{f.addr(address)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"10.244.0.1:8086", "10.96.0.1:443", "10.244.0.6:8080"} {
		in := sandbox.Place{}
		if strings.HasPrefix(at, "10.244.0.6") {
			in.Pod = "b"
		}
		l, err := s.Listen(ctx, in, f.addrPort(at))
		if err != nil {
			t.Fatal(err)
		}
		answer(t, l, "listener at "+at)
	}
	for _, service := range []sandbox.Service{
		{ID: "one", Address: f.addrPort("10.96.0.7:80"), Endpoints: []netip.AddrPort{f.addrPort("10.244.0.1:8086")}},
		{ID: "self", Address: f.addrPort("10.96.0.9:80"), Endpoints: []netip.AddrPort{f.addrPort("10.244.0.6:8080")}},
		{ID: "none", Address: f.addrPort("10.96.0.8:80")},
	} {
		if err := s.SetService(ctx, service); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, from, to, want string }{
		{"host", "a", "10.244.0.1:8086", "listener at 10.244.0.1:8086: from 10.244.0.5 "},
		{"listener at a Service's address", "a", "10.96.0.1:443", "listener at 10.96.0.1:443: from 10.244.0.5 "},
		{"pod to pod", "a", "10.244.0.6:8080", "listener at 10.244.0.6:8080: from 10.244.0.5 "},
		{"Service", "b", "10.96.0.7:80", "listener at 10.244.0.1:8086: from 10.244.0.6 "},
		{"Service of the pod itself", "b", "10.96.0.9:80", "listener at 10.244.0.6:8080: from 10.244.0.1 "},
	} {
		listener, rest, _ := strings.Cut(test.want, ": from")
		if said, err := dial(ctx, s, sandbox.Place{Pod: test.from}, f.addrPort(test.to)); err != nil || !strings.HasPrefix(said, listener+f.text(": from"+rest)) {
			t.Errorf("%s: %q, %v", test.name, said, err)
		}
	}
	if said, err := dial(ctx, s, sandbox.Place{Pod: "b"}, f.addrPort("10.96.0.8:80")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("service without endpoints: %q, %v", said, err)
	}
	if err := s.RemoveService(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	if said, err := dial(ctx, s, sandbox.Place{Pod: "b"}, f.addrPort("10.96.0.7:80")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("service that is gone: %q, %v", said, err)
	}
	if err := s.RemovePod(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.AddPod(ctx, sandbox.Pod{ID: "c", Addresses: []netip.Addr{f.addr("10.244.0.5")}}); err != nil {
		t.Errorf("a pod with the address of one that is gone: %v", err)
	}
}

// A sandbox of IPv4 has no network for other addresses, and passes by Services that have them.
func TestFamilyThatIsNotThere(t *testing.T) {
	s := start(t)
	if err := s.AddPod(t.Context(), sandbox.Pod{ID: "a", Addresses: both("10.244.0.5")}); err == nil || !strings.Contains(err.Error(), "no network of its family") {
		t.Errorf("pod of both families: %v", err)
	}
	if err := s.SetService(t.Context(), sandbox.Service{ID: "a", Address: ipv6.addrPort("10.96.0.7:80")}); err != nil {
		t.Error(err)
	}
}

// A Service that has an address of the other family now is not at its former one any more.
func TestServiceChangesFamily(t *testing.T) {
	s := start(t, ipv6)
	ctx := t.Context()
	if err := s.AddPod(ctx, sandbox.Pod{ID: "a", Addresses: both("10.244.0.5")}); err != nil {
		t.Fatal(err)
	}
	for _, families := range [][2]family{{ipv4, ipv6}, {ipv6, ipv4}} {
		is, was := families[0].addrPort("10.96.0.7:80"), families[1].addrPort("10.96.0.7:80")
		l, err := s.Listen(ctx, sandbox.Place{}, families[0].addrPort("10.244.0.1:8086"))
		if err != nil {
			t.Fatal(err)
		}
		answer(t, l, "host")
		if err := s.SetService(ctx, sandbox.Service{ID: "x", Address: is, Endpoints: []netip.AddrPort{families[0].addrPort("10.244.0.1:8086")}}); err != nil {
			t.Fatal(err)
		}
		if said, err := dial(ctx, s, sandbox.Place{Pod: "a"}, is); err != nil || !strings.HasPrefix(said, "host") {
			t.Errorf("Service at %s: %q, %v", is, said, err)
		}
		if said, err := dial(ctx, s, sandbox.Place{Pod: "a"}, was); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Service at %s is at %s: %q, %v", is, was, said, err)
		}
	}
}

// A meshed pod's connections go to its proxy, with the address that they were for.
func TestRedirect(t *testing.T) {
	s := start(t, ipv6)
	ctx := t.Context()
	port := func(n uint16) sandbox.PortRange { return sandbox.PortRange{First: n, Last: n} }
	for id, address := range map[string]string{"a": "10.244.0.5", "b": "10.244.0.6"} {
		if err := s.AddPod(ctx, sandbox.Pod{ID: id, Addresses: both(address), Redirect: &sandbox.Redirect{
			Inbound: 4143, Outbound: 4140, Own: []uint16{4190, 4191},
			SkipInbound: []sandbox.PortRange{port(9000)}, SkipOutbound: []sandbox.PortRange{port(9000)}, SkipSubnets: []netip.Prefix{netip.MustParsePrefix("10.96.1.0/24"), netip.MustParsePrefix("fd00:10:96::1:0/120")},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddPod(ctx, sandbox.Pod{ID: "plain", Addresses: both("10.244.0.7")}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []family{ipv4, ipv6} {
		t.Run(string(f), func(t *testing.T) { testRedirect(t, s, f) })
	}
}

func testRedirect(t *testing.T, s *sandbox.Sandbox, f family) {
	ctx := t.Context()
	for _, l := range []struct {
		at   sandbox.Place
		addr string
		name string
	}{
		{sandbox.Place{}, "10.244.0.1:8086", "host"},
		{sandbox.Place{}, "10.96.1.5:8086", "skipped network"},
		{sandbox.Place{Pod: "a", Side: sandbox.ProxySide}, "127.0.0.1:4140", "a's outbound"},
		{sandbox.Place{Pod: "b", Side: sandbox.ProxySide}, "0.0.0.0:4143", "b's inbound"},
		{sandbox.Place{Pod: "b", Side: sandbox.ProxySide}, "0.0.0.0:4191", "b's admin"},
		{sandbox.Place{Pod: "b", Side: sandbox.ProgramSide}, "10.244.0.6:8080", "b's program"},
		{sandbox.Place{Pod: "b", Side: sandbox.ProgramSide}, "0.0.0.0:9000", "b's other program"},
	} {
		listener, err := s.Listen(ctx, l.at, f.addrPort(l.addr))
		if err != nil {
			t.Fatal(err)
		}
		answer(t, listener, l.name)
	}
	for _, test := range []struct {
		name string
		from sandbox.Place
		to   string
		want string
	}{
		{"a program to a Service", sandbox.Place{Pod: "a"}, "10.96.5.5:80", "a's outbound: from 10.244.0.5 to 10.96.5.5:80"},
		{"a program to the control plane", sandbox.Place{Pod: "a"}, "10.244.0.1:8086", "a's outbound: from 10.244.0.5 to 10.244.0.1:8086"},
		{"a proxy to the control plane", sandbox.Place{Pod: "a", Side: sandbox.ProxySide}, "10.244.0.1:8086", "host: from 10.244.0.5"},
		{"a proxy to another pod", sandbox.Place{Pod: "a", Side: sandbox.ProxySide}, "10.244.0.6:8080", "b's inbound: from 10.244.0.5 to 10.244.0.6:8080"},
		{"a pod without a proxy", sandbox.Place{Pod: "plain"}, "10.244.0.6:8080", "b's inbound: from 10.244.0.7 to 10.244.0.6:8080"},
		{"a probe", sandbox.Place{}, "10.244.0.6:8080", "b's inbound: from 10.244.0.1 to 10.244.0.6:8080"},
		{"the proxy's own port", sandbox.Place{}, "10.244.0.6:4191", "b's admin: from 10.244.0.1"},
		{"a proxy to its program", sandbox.Place{Pod: "b", Side: sandbox.ProxySide}, "10.244.0.6:8080", "b's program: from 169.254.1.1"},
		{"a network to skip", sandbox.Place{Pod: "a"}, "10.96.1.5:8086", "skipped network: from 10.244.0.5"},
		{"skipped at both ends", sandbox.Place{Pod: "a"}, "10.244.0.6:9000", "b's other program: from 10.244.0.5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			said, err := dial(ctx, s, test.from, f.addrPort(test.to))
			if want := f.text(test.want); err != nil || !strings.HasPrefix(said, want) {
				t.Errorf("%q, %v; want %q", said, err, want)
			}
		})
	}
}
