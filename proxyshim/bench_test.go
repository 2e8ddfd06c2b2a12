package proxyshim_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
	"github.com/linkerd-lite/linkerd-lite/test/load"
)

// TestThousandConnections opens 1,000 connections with 10 Get streams each.
func TestThousandConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("1,000 TLS handshakes and 10,000 streams")
	}
	f := start(t, options{})
	web := f.web()
	const conns, streams = 1000, 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := time.Now()
	var group errgroup.Group
	group.SetLimit(50)
	clients := make([]*rawHTTP2, conns)
	for i := range conns {
		group.Go(func() error {
			target := meshclient.Target{Addr: f.addr[destinationPort], ServerName: destinationName, Anchors: f.anchors, Identity: web}
			if i%2 == 1 {
				target.Addr, target.DirectPort = f.direct, destinationPort
			}
			c, err := dialHTTP2(ctx, target)
			if err != nil {
				return err
			}
			clients[i] = c
			return c.open(streams)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"client_id": webName, "target_port": "8086"}
	f.eventually("all streams to open", func() bool { return f.metric("request_total", labels) == conns*streams })
	t.Logf("%d connections with %d streams each after %v", conns, streams, time.Since(begin).Round(time.Millisecond))
	if got := f.metric("tcp_open_connections", labels); got != conns {
		t.Errorf("%v connections are open, want %d", got, conns)
	}
	begin = time.Now()
	f.stop()
	t.Logf("stop took %v", time.Since(begin).Round(time.Millisecond))
	for _, c := range clients {
		c.close()
	}
}

// BenchmarkUnary compares a unary call through the shim with one in plaintext.
// Compare alternating runs with benchstat.
func BenchmarkUnary(b *testing.B) {
	f := start(b, options{})
	web := f.web()
	for _, test := range []struct {
		name string
		cc   *grpc.ClientConn
	}{
		{"plaintext", f.plain(policyPort)},
		{"mtls", f.dial(meshclient.Target{Addr: f.addr[policyPort], ServerName: destinationName, Identity: web})},
		{"direct", f.dial(meshclient.Target{Addr: f.direct, ServerName: destinationName, Identity: web, DirectPort: policyPort})},
	} {
		b.Run("path="+test.name, func(b *testing.B) {
			client := inbound.NewInboundServerPoliciesClient(test.cc)
			call := func() {
				if _, err := client.GetPort(b.Context(), &inbound.PortSpec{Workload: "ns:pod", Port: 80}); err != nil {
					b.Fatal(err)
				}
			}
			call() // connects
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				call()
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkCertify measures a proxy's first call, handshake included.
func BenchmarkCertify(b *testing.B) {
	f := start(b, options{})
	request, err := meshclient.NewRequest(webName)
	if err != nil {
		b.Fatal(err)
	}
	token := []byte(identitytest.Token(identity.Audience, "emojivoto", "web"))
	for b.Loop() {
		var group errgroup.Group
		for range 500 {
			group.Go(func() error {
				target := meshclient.Target{Addr: f.addr[identityPort], ServerName: identityName, Anchors: f.anchors}
				cc, err := target.Dial()
				if err != nil {
					return err
				}
				defer cc.Close()
				_, err = request.Certify(context.Background(), cc, token)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/500-calls")
}

// BenchmarkIdleConnections measures the memory of an idle connection of the
// mesh. Its clients are another process.
func BenchmarkIdleConnections(b *testing.B) {
	for b.Loop() {
		f := start(b, options{})
		web := f.web()
		before := load.Memory()
		const conns = 1000
		stop := startIdleClients(b, f, web, conns)
		labels := map[string]string{"client_id": webName}
		f.eventually("connections", func() bool { return f.metric("tcp_open_connections", labels) == conns })
		after := load.Memory()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/conns, "heap-B/conn")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/conns, "stack-B/conn")
		stop()
		f.stop()
	}
}

// idleClientEnv makes this test binary a client that holds idle connections.
const idleClientEnv = "PROXYSHIM_IDLE_CLIENT"

// idleConfig is what that client reads from its environment.
type idleConfig struct {
	Addr        string
	Conns       int
	Certificate [][]byte
	Key, Roots  []byte
}

func startIdleClients(b *testing.B, f *fixture, id *meshclient.Identity, conns int) (stop func()) {
	b.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(id.Certificate.PrivateKey)
	if err != nil {
		b.Fatal(err)
	}
	config, err := json.Marshal(idleConfig{f.addr[destinationPort], conns, id.Certificate.Certificate, key, f.identity.Anchors().PEM})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), idleClientEnv+"="+string(config))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatalf("idle client said %q: %v", line, err)
	}
	return func() {
		in.Close()
		_ = cmd.Wait()
	}
}

// idleClient holds connections until its input ends.
func idleClient(config string) {
	var c idleConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		panic(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(c.Key)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.Roots)
	target := meshclient.Target{
		Addr: c.Addr, ServerName: destinationName, Anchors: roots,
		Identity: &meshclient.Identity{Certificate: tls.Certificate{Certificate: c.Certificate, PrivateKey: key}},
	}
	var open []*rawHTTP2
	for range c.Conns {
		conn, err := dialHTTP2(context.Background(), target)
		if err != nil {
			panic(err)
		}
		open = append(open, conn)
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, conn := range open {
		conn.close()
	}
}

// rawHTTP2 is a client that keeps nothing per stream.
type rawHTTP2 struct {
	conn   net.Conn
	framer *http2.Framer
	next   uint32
	wg     sync.WaitGroup
}

func dialHTTP2(ctx context.Context, target meshclient.Target) (*rawHTTP2, error) {
	raw, err := net.Dial("tcp", target.Addr)
	if err != nil {
		return nil, err
	}
	conn, err := target.Handshake(ctx, raw)
	if err != nil {
		raw.Close()
		return nil, err
	}
	c := &rawHTTP2{conn: conn, framer: http2.NewFramer(conn, nil), next: 1}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := c.framer.WriteSettings(); err != nil {
		return nil, err
	}
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 512))
	}()
	return c, nil
}

// open opens n Get streams.
func (c *rawHTTP2) open(n int) error {
	// Literal headers without indexing, so that no table is kept.
	var block []byte
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/io.linkerd.proxy.destination.Destination/Get"},
		{":authority", "dst"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		block = append(block, 0, byte(len(h[0])))
		block = append(block, h[0]...)
		block = append(block, byte(len(h[1])))
		block = append(block, h[1]...)
	}
	for range n {
		if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: block, EndHeaders: true}); err != nil {
			return err
		}
		if err := c.framer.WriteData(c.next, true, make([]byte, 5)); err != nil {
			return err
		}
		c.next += 2
	}
	return nil
}

func (c *rawHTTP2) close() {
	c.conn.Close()
	c.wg.Wait()
}
