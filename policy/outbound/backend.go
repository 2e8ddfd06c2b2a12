package outbound

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

const (
	queueCapacity   = 100
	failfastTimeout = 3 * time.Second
	defaultWeight   = 1
)

// backend resolves a backend of a route (policy-outbound 5.3). load is that of a
// Service's balancer. failure says why no request can be sent there, if none
// can; its filters do not apply then.
func (b *builder) backend(of *gateway.Backend, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) (message *pb.Backend, failure string) {
	if of.Failure != "" {
		return newBackend(&meta.Metadata{Kind: &meta.Metadata_Default{Default: "invalid"}}), of.Failure
	}
	named := of.Reference.In(b.target.Namespace)
	port := of.Port
	if named.Kind == gateway.EgressNetwork && port == 0 {
		port = b.target.port
	}
	switch {
	case named.Kind == gateway.Service && b.exists(named):
		return b.balancer(named, port, load), ""
	case named.Kind == gateway.Service:
		failure = "Service not found " + named.Name
	case !b.exists(named):
		failure = "EgressNetwork not found " + named.Name
	case !b.target.egress():
		failure = "EgressNetwork backends attach to EgressNetwork parents only"
	case named != b.target.Reference:
		failure = "Route with EgressNetwork backend needs to have the same EgressNetwork as a parent"
	default:
		return forward(resource(named, port), b.target.address, of.Weight), ""
	}
	return newBackend(resource(named, port)), failure
}

// defaultBackend is where a rule without backends sends requests (policy-outbound 5.2).
func (b *builder) defaultBackend(load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.Backend {
	if b.target.egress() {
		return forward(resource(b.target.Reference, b.target.port), b.target.address, defaultWeight)
	}
	return b.balancer(b.target.Reference, b.target.port, load)
}

func (b *builder) balancer(service gateway.Reference, port uint16, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.Backend {
	balancer := &pb.Backend_BalanceP2C{
		Discovery: &pb.Backend_EndpointDiscovery{Kind: &pb.Backend_EndpointDiscovery_Dst{Dst: &pb.Backend_EndpointDiscovery_DestinationGet{
			Path: service.Name + "." + service.Namespace + ".svc." + b.clusterDomain + ":" + strconv.Itoa(int(port)),
		}}},
		Load: &pb.Backend_BalanceP2C_PeakEwma_{PeakEwma: &pb.Backend_BalanceP2C_PeakEwma{
			DefaultRtt: durationpb.New(settings.DefaultRTT),
			Decay:      durationpb.New(settings.LoadDecay),
		}},
	}
	if load != nil {
		balancer.Load = &pb.Backend_BalanceP2C_PenaltyPeakEwma_{PenaltyPeakEwma: load}
	}
	out := newBackend(resource(service, port))
	out.Kind = &pb.Backend_Balancer{Balancer: balancer}
	return out
}

func forward(metadata *meta.Metadata, to netip.AddrPort, weight uint32) *pb.Backend {
	out := newBackend(metadata)
	out.Kind = &pb.Backend_Forward{Forward: &destination.WeightedAddr{
		Addr:   net.NewTcpAddress(to),
		Weight: weight,
	}}
	return out
}

// newBackend has what every backend must have, lest proxies refuse the policy.
func newBackend(metadata *meta.Metadata) *pb.Backend {
	return &pb.Backend{
		Metadata: metadata,
		Queue:    &pb.Queue{Capacity: queueCapacity, FailfastTimeout: durationpb.New(failfastTimeout)},
	}
}

func resource(object gateway.Reference, port uint16) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{
		Group: object.Kind.Group(), Kind: string(object.Kind), Namespace: object.Namespace, Name: object.Name, Port: uint32(port),
	}}}
}

func defaultMetadata(format string, args ...any) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Default{Default: fmt.Sprintf(format, args...)}}
}
