package inbound

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

// TestCases plays the recorded conversations of testdata/cases against the
// views, without an API server.
func TestCases(t *testing.T) {
	recorded.Each(t, "testdata/cases/*.txtar", func(t *testing.T, c recorded.Case) {
		bubble(t, defaultConfig(), func(t *testing.T, cluster *cluster) { cluster.player().Play(t, c) })
	})
}

func (c *cluster) player() recorded.Player {
	return recorded.Player{Put: c.put, Remove: c.remove, Settle: c.settle, Open: func(method string, request proto.Message) recorded.Call {
		spec := request.(*pb.PortSpec)
		if method == "WatchPort" {
			return c.watch(spec.Workload, spec.Port)
		}
		return streams.Answered(c.server.GetPort(c.t.Context(), spec))
	}}
}
