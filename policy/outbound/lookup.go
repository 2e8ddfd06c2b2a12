package outbound

import (
	"errors"
	"net/netip"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// answer is a view of either family.
type answer interface {
	Current() *view.Version[policyAnswer]
	Release()
}

// subscription is what a call holds while it lasts. It is for one goroutine.
type subscription struct {
	graph  *view.Graph
	answer answer
	// resolution is nil unless the call is about traffic that leaves the cluster.
	resolution *view.View[lookup, resolution]
	resolved   *view.Version[resolution]
	// sent is what the client of a stream has, zero at first.
	sent policyAnswer
}

// Next implements stream.Source. Versions that came and went while the client
// did not read leave the answer it has. A policy that changed together with
// what its address stands for is sent before the end.
func (s *subscription) Next() (step stream.Step) {
	now := s.answer.Current()
	if s.resolution != nil {
		var resolved *view.Version[resolution]
		s.graph.Together(func() { now, resolved = s.answer.Current(), s.resolution.Current() })
		step.Gone = resolved.Value != s.resolved.Value
		step.WakeOn(resolved.Superseded())
	}
	step.Fault = now.Fault
	step.WakeOn(now.Superseded())
	if answer := now.Value; answer.Encoded != nil && !s.sent.equal(answer) {
		step.Send(answer.Encoded)
		s.sent = answer
	}
	return step
}

// release gives everything back.
func (s *subscription) release() {
	s.answer.Release()
	if s.resolution != nil {
		s.resolution.Release()
	}
}

// subscribe finds out what a request is about (policy-outbound 1). Its errors
// are those of the specification, in that order.
func (s *Server) subscribe(spec *pb.TrafficSpec) (*subscription, error) {
	if spec.GetTarget() == nil {
		return nil, status.Error(codes.InvalidArgument, "target is required")
	}
	workload, err := policy.ParseWorkload(spec.GetSourceWorkload())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid workload: %s", spec.GetSourceWorkload())
	}
	if a, ok := spec.GetTarget().(*pb.TrafficSpec_Authority); ok {
		found, err := s.authorityTarget(a.Authority)
		if err != nil {
			return nil, err
		}
		return &subscription{graph: s.graph, answer: s.views.acquire(found, workload.Namespace)}, nil
	}
	address, err := parseAddress(spec.GetAddr())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return s.subscribeAddress(address, workload.Namespace)
}

// authorityTarget does not look whether the Service exists.
func (s *Server) authorityTarget(authority string) (target, error) {
	host, port, err := splitAuthority(authority)
	if err != nil {
		return target{}, status.Error(codes.InvalidArgument, err.Error())
	}
	name, namespace, ok := serviceName(host, s.clusterDomain)
	if !ok {
		return target{}, status.Errorf(codes.NotFound, "authority must be of the form <name>.<namespace>.svc.%s", s.clusterDomain)
	}
	if port == 0 {
		port = defaultPort
	}
	return target{Reference: gateway.Reference{Kind: gateway.Service, Namespace: namespace, Name: name}, port: port}, nil
}

func (s *Server) subscribeAddress(address netip.AddrPort, namespace string) (*subscription, error) {
	resolution := s.views.resolutions.Acquire(lookup{address.Addr(), namespace})
	resolved := resolution.Current()
	if resolved.Fault != nil {
		resolution.Release()
		return nil, stream.Unavailable(resolved.Fault)
	}
	found := target{Reference: resolved.Value.Reference, port: address.Port()}
	switch {
	case found.Kind == gateway.Service:
		// What the Service is called is all that matters from now on.
		resolution.Release()
		resolution, resolved = nil, nil
		service := s.views.index.parent(s.state.Snapshot().Reader(), found.Reference)
		found.undefined = !service.declares(found.port)
	case found.Kind == gateway.OtherKind && s.inCluster(address.Addr()):
		resolution.Release()
		return nil, status.Error(codes.NotFound, "No such service")
	default:
		found.address = address
	}
	return &subscription{graph: s.graph, answer: s.views.acquire(found, namespace), resolution: resolution, resolved: resolved}, nil
}

func (s *Server) inCluster(ip netip.Addr) bool {
	for _, network := range s.clusterNetworks {
		if network.Contains(ip) {
			return true
		}
	}
	return false
}

func parseAddress(address *net.TcpAddress) (netip.AddrPort, error) {
	switch {
	case address.GetPort() > 65535:
		return netip.AddrPort{}, errors.New("port outside valid range")
	case address.GetPort() == 0:
		return netip.AddrPort{}, errors.New("port cannot be zero")
	case address.GetIp() == nil:
		return netip.AddrPort{}, errors.New("traffic target must have an IP")
	}
	target := address.AddrPort()
	if !target.IsValid() {
		return netip.AddrPort{}, errors.New("failed to parse target addr: invalid IP address")
	}
	return target, nil
}
