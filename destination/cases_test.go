package destination

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

// TestCases plays the recorded conversations of testdata/cases against the
// views, without an API server.
func TestCases(t *testing.T) {
	recorded.Each(t, "testdata/cases/*.txtar", func(t *testing.T, c recorded.Case) {
		bubble(t, caseConfig(t, c.Server()), func(t *testing.T, cluster *cluster) { cluster.player().Play(t, c) })
	})
}

// caseConfig returns the set of flags of that name.
func caseConfig(t *testing.T, name string) Config {
	config := defaultConfig()
	switch name {
	case "", "default":
	case "ipv6":
		config.EnableIPv6 = true
	case "plain":
		config.OutboundTransportMode = linkerd.TransportTransparent
		config.EnableH2Upgrade = false
		config.DefaultOpaquePorts = linkerd.PortList{}
		config.MeshedHTTP2ClientParams = ""
		config.ExtEndpointZoneWeights = true
	case "endpoints":
		config.EnableEndpointSlices = false
	default:
		t.Fatalf("unknown set of flags %q", name)
	}
	return config
}

func (c *cluster) player() recorded.Player {
	return recorded.Player{Put: c.put, Remove: c.remove, Settle: c.settle, Open: func(method string, request proto.Message) recorded.Call {
		get := request.(*pb.GetDestination)
		if method == "GetProfile" {
			return open(c, func(s *streams.Stream[*pb.DestinationProfile]) error { return c.server.GetProfile(get, s) })
		}
		return open(c, func(s *streams.Stream[*pb.Update]) error { return c.server.Get(get, s) })
	}}
}
