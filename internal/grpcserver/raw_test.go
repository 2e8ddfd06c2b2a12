package grpcserver_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// rawClient speaks just enough HTTP/2 to open WatchPort streams. It keeps
// nothing per stream, so that a heap measurement in the same process is the
// server's.
type rawClient struct {
	conn   net.Conn
	framer *http2.Framer
	next   uint32
	wg     sync.WaitGroup
}

func dialRaw(t testing.TB, addr string) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	r := &rawClient{conn: c, framer: http2.NewFramer(c, nil), next: 1}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens n streams.
func (r *rawClient) open(t testing.TB, n int) {
	t.Helper()
	body, err := proto.Marshal(&inbound.PortSpec{Workload: `{"ns":"n","pod":"p"}`, Port: 80})
	if err != nil {
		t.Fatal(err)
	}
	message := append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for range n {
		block.Reset()
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", inbound.InboundServerPolicies_WatchPort_FullMethodName},
			{":authority", "policy"}, {"content-type", "application/grpc"}, {"te", "trailers"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.next, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if err := r.framer.WriteData(r.next, true, message); err != nil {
			t.Fatal(err)
		}
		r.next += 2
	}
}

// drain reads and forgets what the server sends.
func (r *rawClient) drain() {
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r.conn}, make([]byte, 512))
	}()
}

func (r *rawClient) close() {
	r.conn.Close()
	r.wg.Wait()
}
