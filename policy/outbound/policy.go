package outbound

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

const detectTimeout = 10 * time.Second

// target is what a request is about.
type target struct {
	gateway.Reference
	// port is the requested one, also of an address.
	port uint16
	// undefined is set for an address whose port the Service did not declare
	// when it was asked for: nothing may pass until it does.
	undefined bool
	// address is the original destination of what leaves the cluster, else invalid.
	address netip.AddrPort
}

func (t target) egress() bool { return t.Kind == gateway.EgressNetwork }

// isFallback is true for an address outside the cluster that is in no EgressNetwork.
func (t target) isFallback() bool { return t.address.IsValid() && !t.egress() }

// builder makes a policy from what was read from a snapshot.
type builder struct {
	clusterDomain   string
	allowL5dHeaders bool
	target          target
	// parent is nil if it does not exist.
	parent *parent
	// routes of each kind that are attached to the target.
	routes [gateway.Protocols][]*gateway.Route
	// exists tells of a Service or an EgressNetwork whether there is one.
	exists func(gateway.Reference) bool
}

// add sorts a route in, if it is attached to the target.
func (b *builder) add(r *gateway.Route) {
	if r.Outbound.AttachedTo(b.target.Reference, b.target.port) {
		list := b.routes[r.Protocol]
		i, _ := slices.BinarySearchFunc(list, r, gateway.CompareOutbound)
		b.routes[r.Protocol] = slices.Insert(list, i, r)
	}
}

// attached names the routes that are attached to the target.
func (b *builder) attached() string {
	var names strings.Builder
	for _, routes := range b.routes {
		for _, r := range routes {
			fmt.Fprintln(&names, r.Group, r.Kind, r.GetNamespace(), r.GetName(), r.Outbound.Created.UnixNano())
		}
	}
	return names.String()
}

func (b *builder) settings() parentSettings {
	if b.parent == nil {
		return parentSettings{}
	}
	return b.parent.parentSettings
}

// build returns the policy. Every field without which proxies refuse a whole
// policy is set (policy-outbound 12).
func (b *builder) build() *pb.OutboundPolicy {
	if b.target.isFallback() {
		return fallback(b.target.address)
	}
	out := &pb.OutboundPolicy{Metadata: resource(b.target.Reference, b.target.port)}
	if b.target.undefined && !b.parent.declares(b.target.port) {
		out.Protocol = undefinedPort()
	} else {
		out.Protocol = b.protocol()
	}
	return out
}

// protocol decides what is spoken (policy-outbound 3.2).
func (b *builder) protocol() *pb.ProxyProtocol {
	switch b.parent.appProtocol(b.target.port) {
	case http1:
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Http1_{Http1: b.http1()}}
	case http2:
		if len(b.routes[gateway.GRPC]) > 0 {
			return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Grpc_{Grpc: b.grpc()}}
		}
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Http2_{Http2: b.http2()}}
	case opaque:
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Opaque_{Opaque: b.opaque(nil)}}
	}
	switch {
	case len(b.routes[gateway.GRPC]) > 0:
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Grpc_{Grpc: b.grpc()}}
	case len(b.routes[gateway.HTTP]) > 0:
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Detect_{Detect: b.detect()}}
	case len(b.routes[gateway.TLS]) > 0:
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Tls_{Tls: b.tls()}}
	case len(b.routes[gateway.TCP]) > 0:
		return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Opaque_{Opaque: b.opaque(b.settings().penalty)}}
	}
	return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Detect_{Detect: b.detect()}}
}

func (b *builder) http1() *pb.ProxyProtocol_Http1 {
	return &pb.ProxyProtocol_Http1{Routes: b.httpRoutes(), FailureAccrual: b.settings().accrual}
}

func (b *builder) http2() *pb.ProxyProtocol_Http2 {
	return &pb.ProxyProtocol_Http2{Routes: b.httpRoutes(), FailureAccrual: b.settings().accrual}
}

func (b *builder) grpc() *pb.ProxyProtocol_Grpc {
	return &pb.ProxyProtocol_Grpc{Routes: b.grpcRoutes(), FailureAccrual: b.settings().accrual}
}

func (b *builder) tls() *pb.ProxyProtocol_Tls {
	return &pb.ProxyProtocol_Tls{Routes: b.tlsRoutes()}
}

// opaque has one route, since proxies refuse more (P169).
func (b *builder) opaque(load *pb.Backend_BalanceP2C_PenaltyPeakEwma) *pb.ProxyProtocol_Opaque {
	if list := b.routes[gateway.TCP]; len(list) > 0 {
		return &pb.ProxyProtocol_Opaque{Routes: []*pb.OpaqueRoute{b.tcpRoute(list[0], load)}}
	}
	return &pb.ProxyProtocol_Opaque{Routes: []*pb.OpaqueRoute{b.defaultOpaqueRoute(load)}}
}

// detect never uses a TCPRoute.
func (b *builder) detect() *pb.ProxyProtocol_Detect {
	http1 := b.http1()
	return &pb.ProxyProtocol_Detect{
		Timeout: durationpb.New(detectTimeout),
		Opaque:  &pb.ProxyProtocol_Opaque{Routes: []*pb.OpaqueRoute{b.defaultOpaqueRoute(b.settings().penalty)}},
		Http1:   http1,
		Http2:   &pb.ProxyProtocol_Http2{Routes: http1.Routes, FailureAccrual: http1.FailureAccrual},
	}
}

// action is the last part of the names of an EgressNetwork's default routes.
// What is not known denies.
func (b *builder) action() string {
	if b.denies() {
		return "deny"
	}
	return "allow"
}

func (b *builder) denies() bool { return b.parent == nil || b.parent.deny }

// undefinedPort refuses connections to a port that a Service does not have (policy-outbound 9).
func undefinedPort() *pb.ProxyProtocol {
	return &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Opaque_{Opaque: &pb.ProxyProtocol_Opaque{Routes: []*pb.OpaqueRoute{{
		Metadata: defaultMetadata("undefined-port"),
		Rules: []*pb.OpaqueRoute_Rule{{
			Backends: &pb.OpaqueRoute_Distribution{Kind: &pb.OpaqueRoute_Distribution_Empty_{Empty: &pb.OpaqueRoute_Distribution_Empty{}}},
			Filters:  []*pb.OpaqueRoute_Filter{opaqueForbidden()},
		}},
	}}}}}
}

// fallback lets traffic that leaves the cluster pass as it is (policy-outbound 10).
func fallback(to netip.AddrPort) *pb.OutboundPolicy {
	metadata := defaultMetadata("egress-fallback")
	backend := forward(metadata, to, defaultWeight)
	httpRoutes := []*pb.HttpRoute{{
		Metadata: metadata,
		Rules: []*pb.HttpRoute_Rule{{
			Matches:  []*http_route.HttpRouteMatch{{}},
			Backends: httpDistribution.first(backend),
		}},
	}}
	return &pb.OutboundPolicy{
		Metadata: metadata,
		Protocol: &pb.ProxyProtocol{Kind: &pb.ProxyProtocol_Detect_{Detect: &pb.ProxyProtocol_Detect{
			Timeout: durationpb.New(detectTimeout),
			Opaque: &pb.ProxyProtocol_Opaque{Routes: []*pb.OpaqueRoute{{
				Metadata: metadata,
				Rules:    []*pb.OpaqueRoute_Rule{{Backends: opaqueDistribution.first(backend)}},
			}}},
			Http1: &pb.ProxyProtocol_Http1{Routes: httpRoutes},
			Http2: &pb.ProxyProtocol_Http2{Routes: httpRoutes},
		}}},
	}
}
