package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/sandbox"
)

// insideEnv makes this test binary what runs in the sandbox.
const insideEnv = "SANDBOX_TEST_INSIDE"

func TestMain(m *testing.M) {
	switch os.Getenv(insideEnv) {
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
	case "exec":
		fmt.Println(sandbox.Exec([]string{"sh", "-c", "echo as $(id -u)"}))
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
	l, err := net.Listen("tcp", "[fd00:10:244::3]:4143")
	if err != nil {
		fmt.Println("without IPv6:", err)
		return nil
	}
	defer l.Close()
	c, err := net.Dial("tcp", "[fd00:10:244::3]:4143")
	if err != nil {
		return err
	}
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

func TestExec(t *testing.T) {
	if out := start(t, "exec"); out != "as 0\n" {
		t.Errorf("output %q", out)
	}
}
