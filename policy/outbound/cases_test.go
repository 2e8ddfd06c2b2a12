package outbound

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
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
		spec := request.(*pb.TrafficSpec)
		if method == "Watch" {
			return c.open(spec)
		}
		return streams.Answered(c.server.Get(c.t.Context(), spec))
	}}
}
