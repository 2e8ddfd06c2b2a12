package outbound

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

const (
	queueCapacity   = 100
	failfastTimeout = 3 * time.Second
	defaultWeight   = 1
)

// backendRef is where a rule sends requests, as far as it does not depend on
// the parent and on what exists. Immutable.
type backendRef struct {
	weight uint32
	// failure says why no request can be sent there, whatever exists.
	failure string
	egress  bool
	// namespace is empty where it is the parent's, not the route's (P192).
	namespace, name string
	// port is 0 where an EgressNetwork's is that of the original destination.
	port uint16

	httpFilters []*pb.HttpRoute_Filter
	grpcFilters []*pb.GrpcRoute_Filter
}

// newBackendRef converts a reference; filters adds those of its kind. The
// order of the checks decides what clients are told (policy-outbound 5.3).
func newBackendRef(ref gatewayv1.BackendRef, filters func(*backendRef) error) backendRef {
	b := backendRef{weight: defaultWeight, name: string(ref.Name), port: portOf(ref.Port)}
	if ref.Weight != nil {
		b.weight = uint32(max(*ref.Weight, 0))
	}
	if ref.Namespace != nil {
		b.namespace = string(*ref.Namespace)
	}
	kind := serviceKind
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	target, ok := targetKind(ref.Group, kind)
	if !ok {
		b.failure = "unsupported backend type " + printed(ref.Group, coreGroup) + " " + printed(ref.Kind, "<empty>")
		return b
	}
	b.egress = target == egressKind
	if err := filters(&b); err != nil {
		b.failure = "unsupported backend filter: " + detail(err)
	} else if !b.egress && b.port == 0 {
		b.failure = "missing port for backend Service " + b.name
	}
	return b
}

func printed[T ~string](value *T, absent string) string {
	if value == nil {
		return absent
	}
	return string(*value)
}

// backend is a backend of a rule as far as all protocols have it in common.
type backend struct {
	*pb.Backend
	weight uint32
	// failure says why no request can be sent there; the filters of ref do not apply then.
	failure string
	ref     *backendRef
}

// backend resolves a reference (policy-outbound 5.3). load is that of a Service's balancer.
func (b *builder) backend(ref *backendRef, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) backend {
	out := backend{weight: ref.weight, ref: ref}
	if ref.failure != "" {
		out.failure = ref.failure
		out.Backend = newBackend(&meta.Metadata{Kind: &meta.Metadata_Default{Default: "invalid"}})
		return out
	}
	key := parentKey{ref.egress, ref.namespace, ref.name}
	if key.namespace == "" {
		key.namespace = b.target.namespace
	}
	port := ref.port
	if ref.egress && port == 0 {
		port = b.target.port
	}
	switch {
	case !ref.egress && !b.exists(key):
		out.failure = "Service not found " + ref.name
	case !ref.egress:
		out.Backend = b.balancer(key, port, load)
		return out
	case !b.exists(key):
		out.failure = "EgressNetwork not found " + ref.name
	case !b.target.egress:
		out.failure = "EgressNetwork backends attach to EgressNetwork parents only"
	case key != b.target.parentKey:
		out.failure = "Route with EgressNetwork backend needs to have the same EgressNetwork as a parent"
	default:
		out.Backend = forward(resource(key, port), b.target.address, ref.weight)
		return out
	}
	out.Backend = newBackend(resource(key, port))
	return out
}

// defaultBackend is where a rule without backends sends requests (policy-outbound 5.2).
func (b *builder) defaultBackend(load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.Backend {
	if b.target.egress {
		return forward(resource(b.target.parentKey, b.target.port), b.target.address, defaultWeight)
	}
	return b.balancer(b.target.parentKey, b.target.port, load)
}

func (b *builder) balancer(service parentKey, port uint16, load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.Backend {
	balancer := &pb.Backend_BalanceP2C{
		Discovery: &pb.Backend_EndpointDiscovery{Kind: &pb.Backend_EndpointDiscovery_Dst{Dst: &pb.Backend_EndpointDiscovery_DestinationGet{
			Path: service.name + "." + service.namespace + ".svc." + b.clusterDomain + ":" + strconv.Itoa(int(port)),
		}}},
		Load: &pb.Backend_BalanceP2C_PeakEwma_{PeakEwma: &pb.Backend_BalanceP2C_PeakEwma{
			DefaultRtt: durationpb.New(defaultRTT),
			Decay:      durationpb.New(loadDecay),
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

func resource(key parentKey, port uint16) *meta.Metadata {
	out := &meta.Resource{Group: coreGroup, Kind: serviceKind, Namespace: key.namespace, Name: key.name, Port: uint32(port)}
	if key.egress {
		out.Group, out.Kind = apis.Group, egressKind
	}
	return &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: out}}
}

func defaultMetadata(format string, args ...any) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Default{Default: fmt.Sprintf(format, args...)}}
}
