package sandbox_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/sandbox"
)

// insideEnv makes this test binary what runs in the sandbox.
const insideEnv = "SANDBOX_TEST_INSIDE"

func TestMain(m *testing.M) {
	switch what := os.Getenv(insideEnv); what {
	case "":
		os.Exit(m.Run())
	case "connect":
		err := inside()
		if errors.Is(err, sandbox.ErrForbidden) {
			fmt.Println("forbidden:", err)
			return
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	case "make":
		cmd := sandbox.Command(os.Args[0])
		cmd.Env, cmd.Stdout = append(os.Environ(), insideEnv+"=sleep 1000 & echo up; wait"), os.Stdout
		if sandbox.Start(cmd) == nil {
			_ = cmd.Wait()
		}
	default: // a script
		code, err := sandbox.Run([]string{"sh", "-c", what})
		if err != nil {
			fmt.Println("failed:", err)
		}
		os.Exit(code)
	}
}

// inside does what a proxy's client and a proxy do.
func inside() error {
	if err := sandbox.Enter(sandbox.DefaultRanges()); err != nil {
		return err
	}
	for _, test := range []struct{ listen, dial string }{
		{"0.0.0.0:4140", "10.96.3.4:4140"},
		{"10.244.0.3:4143", "10.244.0.3:4143"},
		{"127.0.0.1:8086", "127.0.0.1:8086"},
	} {
		got, err := originalDestination(test.listen, test.dial)
		if err != nil {
			return fmt.Errorf("listen on %s, dial %s: %w", test.listen, test.dial, err)
		}
		fmt.Println("reached", got)
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		fmt.Println("without IPv6")
		return nil
	}
	if on, err := os.ReadFile("/proc/sys/net/ipv6/ip_nonlocal_bind"); err != nil || string(on) != "1\n" {
		fmt.Println("IPv6 cannot be set up:", err)
		return nil
	}
	l, err := net.Listen("tcp", "[fd00:10:244::3]:4143")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("tcp", "[fd00:10:244::3]:4143")
	if err != nil {
		return err
	}
	fmt.Println("IPv6 from", c.LocalAddr().(*net.TCPAddr).IP)
	return c.Close()
}

// originalDestination is where the kernel says that a client wanted to go.
func originalDestination(listen, dial string) (netip.AddrPort, error) {
	l, err := net.Listen("tcp4", listen)
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer l.Close()
	client, err := net.Dial("tcp4", dial)
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer server.Close()
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	const originalDst = 80 // SO_ORIGINAL_DST
	var info *unix.IPv6Mreq
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		// The option returns a sockaddr_in of 16 bytes, as long as an IPv6Mreq's address.
		info, sockErr = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, originalDst)
	}); err != nil {
		return netip.AddrPort{}, err
	}
	if sockErr != nil {
		return netip.AddrPort{}, fmt.Errorf("ask for the original destination: %w", sockErr)
	}
	a := info.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), binary.BigEndian.Uint16(a[2:4])), nil
}

// start runs this test binary in a sandbox and returns what it prints.
func start(t *testing.T, what string) string {
	t.Helper()
	cmd := sandbox.Command(os.Args[0])
	cmd.Env = append(os.Environ(), insideEnv+"="+what)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&out, os.Stderr)
	err := sandbox.Start(cmd)
	if errors.Is(err, sandbox.ErrForbidden) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if reason, ok := strings.CutPrefix(out.String(), "forbidden:"); ok {
		t.Skip(reason)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return out.String()
}

// A proxy learns where its client wanted to go, for addresses that exist nowhere.
func TestSandbox(t *testing.T) {
	out := start(t, "connect")
	for _, want := range []string{"reached 10.96.3.4:4140", "reached 10.244.0.3:4143", "reached 127.0.0.1:8086"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}

// Pods have IPv6 addresses on which one can listen, and clients do not come
// from ::1, which proxies let pass every policy.
func TestIPv6(t *testing.T) {
	rulebook.Covers(t, "H4")
	out := start(t, "connect")
	if strings.Contains(out, "without IPv6") || strings.Contains(out, "cannot be set up") {
		t.Skip(out)
	}
	if !strings.Contains(out, "IPv6 from fd00:10:244:0:ffff:ffff:ffff:ffff") {
		t.Errorf("output %s", out)
	}
}

// What a script leaves in the background ends with it; the pipe that it
// holds would keep this test waiting. The script's end is the sandbox's.
func TestBackgroundEnds(t *testing.T) {
	rulebook.Covers(t, "H7")
	if out := start(t, "sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & echo as $(id -u)"); out != "as 0\n" {
		t.Errorf("output %q", out)
	}
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "trap 'exit 5' TERM; kill -TERM 1; while :; do sleep 0.01; done": 5} {
		cmd := sandbox.Command(os.Args[0])
		cmd.Env = append(os.Environ(), insideEnv+"="+script)
		if err := sandbox.Start(cmd); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != want {
			t.Errorf("%s: %v, want status %d", script, err, want)
		}
	}
}

// Nothing of a sandbox outlives who made it, however it ends.
func TestSandboxDiesWithItsMaker(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	maker := exec.Command(os.Args[0])
	maker.Env, maker.Stdout = append(os.Environ(), insideEnv+"=make"), write
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil || line != "up\n" {
		_ = maker.Wait()
		t.Skipf("no sandbox here: %q, %v", line, err)
	}
	if err := maker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = maker.Wait()
	if _, err := io.Copy(io.Discard, read); err != nil { // until the last process has closed it
		t.Fatal(err)
	}
}
