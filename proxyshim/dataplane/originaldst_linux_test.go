package dataplane_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/sandbox"
)

// insideEnv makes this test binary what runs in the sandbox.
const insideEnv = "DATAPLANE_TEST_INSIDE"

// inside redirects connections to a listener as a pod's network does, and prints
// where the kernel says that their clients wanted to go.
func inside() error {
	if err := sandbox.Enter(sandbox.DefaultRanges()); err != nil {
		return err
	}
	if err := redirect(4140, 4150); err != nil {
		return fmt.Errorf("redirect: %w", err)
	}
	l, err := net.Listen("tcp", ":4150") // both families, if there are both
	if err != nil {
		return err
	}
	defer l.Close()
	for _, to := range []string{"10.96.3.4:4140", "[fd00:10:96::3]:4140"} {
		c, err := net.Dial("tcp", to)
		if err != nil {
			fmt.Println("without", to, err)
			continue
		}
		defer c.Close()
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		defer conn.Close()
		client, original, err := dataplane.KernelAddresses(conn)
		if err != nil {
			return err
		}
		if client != c.LocalAddr().(*net.TCPAddr).AddrPort().Addr() {
			return fmt.Errorf("client %s, not %s", client, c.LocalAddr())
		}
		fmt.Println("wanted", original)
	}
	return nil
}

// redirect sends connections to one port of any address to another of this
// machine.
func redirect(from, to uint16) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Name: "test", Family: nftables.TableFamilyINet})
	chain := conn.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(from)},
		&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(to)},
		&expr.Redir{RegisterProtoMin: 1},
	}})
	return conn.Flush()
}

// The kernel says where clients of both families wanted to go before they were
// redirected.
func TestOriginalDestination(t *testing.T) {
	cmd := sandbox.Command(os.Args[0])
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := sandbox.Start(cmd)
	if errors.Is(err, sandbox.ErrForbidden) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	got := out.String()
	if strings.Contains(got, sandbox.ErrForbidden.Error()) {
		t.Skip(got)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	for _, want := range []string{"10.96.3.4:4140", "[fd00:10:96::3]:4140"} {
		if strings.Contains(got, "without "+want) {
			t.Logf("not tried: %s", got)
		} else if !strings.Contains(got, "wanted "+want) {
			t.Errorf("output lacks %s:\n%s", want, got)
		}
	}
	if !strings.Contains(got, "wanted "+netip.MustParseAddrPort("10.96.3.4:4140").String()) {
		t.Errorf("IPv4 was not tried: %s", got)
	}
}
