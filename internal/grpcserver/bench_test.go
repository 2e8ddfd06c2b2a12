package grpcserver_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/test/load"
)

// BenchmarkIdleStreams measures what an open stream costs without a service
// behind it: the floor of every memory budget.
func BenchmarkIdleStreams(b *testing.B) {
	const conns, perConn = 100, 100
	for b.Loop() {
		b.StopTimer()
		encoded, err := grpcserver.Encode(&inbound.Server{Labels: map[string]string{"name": "x"}})
		if err != nil {
			b.Fatal(err)
		}
		opened := make(chan struct{}, conns*perConn)
		var f *fixture
		p := &policies{watch: func(_ *inbound.PortSpec, out grpc.ServerStreamingServer[inbound.Server]) error {
			if err := out.SendMsg(encoded); err != nil {
				return err
			}
			opened <- struct{}{}
			select {
			case <-f.server.Done():
			case <-out.Context().Done():
			}
			return nil
		}}
		f = start(b, grpcserver.PolicyNaming, p)
		clients := make([]*rawClient, conns)
		before := load.Memory()
		b.StartTimer()
		for i := range clients {
			clients[i] = dialRaw(b, f.addr)
			clients[i].drain()
			clients[i].open(b, perConn)
		}
		for range conns * perConn {
			<-opened
		}
		b.StopTimer()
		after := load.Memory()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(conns*perConn), "heap-B/stream")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/(conns*perConn), "stack-B/stream")
		for _, c := range clients {
			c.close()
		}
		b.StartTimer()
	}
}

// BenchmarkSendEncoded measures one message to one stream, encoded before.
func BenchmarkSendEncoded(b *testing.B) {
	encoded, err := grpcserver.Encode(&inbound.Server{Labels: map[string]string{"name": string(make([]byte, 8<<10))}})
	if err != nil {
		b.Fatal(err)
	}
	codec := grpcserver.NewCodec()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.Marshal(encoded); err != nil {
			b.Fatal(err)
		}
	}
}
