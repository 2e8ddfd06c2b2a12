package destination

import (
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// profiles are the views behind GetProfile.
type profiles struct {
	services  *view.Set[serviceProfileKey, serviceProfile]
	endpoints *view.Set[endpointKey, endpointProfile]
	metrics   *profileMetrics
}

func newProfiles(config Config, m *mesh, local *clusterViews) (*profiles, error) {
	metrics, err := newProfileMetrics(config.Registerer, newProfileVersionSet(config.Graph))
	if err != nil {
		return nil, err
	}
	services := &serviceProfiles{clusterDomain: config.ClusterDomain, opaquePorts: m.opaquePorts, strict: config.StrictProfiles}
	endpoints := &endpointProfiles{mesh: m, trustDomain: config.TrustDomain, servers: local.servers}
	return &profiles{
		services:  services.newSet(config.Graph),
		endpoints: endpoints.newSet(config.Graph),
		metrics:   metrics,
	}, nil
}

// GetProfile streams the profile of a Service or of an endpoint, whichever the
// path means at the time of the call (D section 2.1).
func (s *Server) GetProfile(request *pb.GetDestination, out grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	token := parseContextToken(request.ContextToken, s.log)
	source, err := s.profileOf(request.Path, token.Namespace)
	if err != nil {
		return err
	}
	defer source.close()
	return s.follower.Follow(out, token.call(request.Path), source)
}

// profileOf is what a client follows that asks for path. Client is the namespace
// whose ServiceProfiles it has. The source is to be closed.
func (s *Server) profileOf(path, client string) (closableSource, error) {
	a, err := parseAuthority(path)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid authority: %q: %q", path, err)
	}
	r := s.config.State.Snapshot().Reader()
	if ip, ok := netip.AddrFromSlice(a.ip()); ok {
		return s.profileOfIP(r, netip.AddrPortFrom(ip.Unmap(), uint16(a.port)), client)
	}
	name, err := parseServiceName(a.host, s.config.ClusterDomain)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid service %q: %q", a.host, err)
	}
	if name.hostname != "" {
		return s.profileOfInstance(r, name, a.port)
	}
	service, _ := state.Get(r, state.Services, name.namespace, name.service)
	if service != nil && service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid authority: %s", path)
	}
	return s.profileOfService(serviceProfileKey{name.namespace, name.service, a.port, client})
}

// profileOfIP looks for a Service first, then for what runs at the address.
func (s *Server) profileOfIP(r *state.Reader, addr netip.AddrPort, client string) (closableSource, error) {
	ip := addr.Addr().String()
	var services []*corev1.Service
	for service := range state.By(r, state.Services, state.ServicesByIP, ip) {
		services = append(services, service)
	}
	switch {
	case len(services) == 1:
		return s.profileOfService(serviceProfileKey{services[0].Namespace, services[0].Name, uint32(addr.Port()), client})
	case len(services) > 1:
		return nil, status.Errorf(codes.FailedPrecondition, "found %d services with conflicting cluster IP %s", len(services), ip)
	}
	if _, err := findBacking(r, addr, ""); err != nil {
		return nil, err
	}
	return s.profileOfEndpoint(endpointKey{addr: addr}), nil
}

// profileOfInstance is about the pod behind an instance's name, also where a
// lookup of its address would not lead to it: the pod may be in its host's
// network.
func (s *Server) profileOfInstance(r *state.Reader, name serviceName, port uint32) (closableSource, error) {
	pod, err := s.instancePod(r, name)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		return idle{}, nil
	}
	key := endpointKey{addr: netip.AddrPortFrom(ip.Unmap(), uint16(port))}
	if behind, err := findBacking(r, key.addr, ""); err != nil || behind.pod != pod {
		key.pod = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
	return s.profileOfEndpoint(key), nil
}

func (s *Server) profileOfEndpoint(key endpointKey) *endpointSource {
	return &endpointSource{view: s.profiles.endpoints.Acquire(key), metrics: s.profiles.metrics, leave: s.profiles.metrics.joinWorkload()}
}

// profileOfService is about a Service that may not be there, unless profiles
// are strict.
func (s *Server) profileOfService(key serviceProfileKey) (closableSource, error) {
	view := s.profiles.services.Acquire(key)
	if view.Current().Value.standing == missing {
		view.Release()
		return nil, status.Errorf(codes.Unknown, "service %q not found", key.service)
	}
	return &serviceSource{view, s.profiles.metrics.joinService(key, fullName(key.service, key.namespace, s.config.ClusterDomain))}, nil
}

// idle is the profile of a pod that has no address yet: there is nothing to
// say (D section 2.4).
type idle struct{}

func (idle) Next() stream.Step { return stream.Step{} }

func (idle) close() {}

// endpointSource is the profile of an endpoint on one stream.
type endpointSource struct {
	view    *view.View[endpointKey, endpointProfile]
	metrics *profileMetrics
	// leave ends the stream's part in the metrics.
	leave func()
	sent  *grpcserver.Encoded
}

// Next implements stream.Source. It leaves out messages that equal the last one (D137).
func (s *endpointSource) Next() stream.Step {
	now := s.view.Current()
	step := stream.Step{Fault: now.Fault}
	step.WakeOn(now.Superseded())
	if m := now.Value.message; m != nil && !m.Equal(s.sent) {
		s.sent = m
		s.metrics.workloadUpdates.Inc()
		step.Send(m)
	}
	return step
}

func (s *endpointSource) close() {
	s.view.Release()
	s.leave()
}

// serviceSource is the profile of a Service on one stream.
type serviceSource struct {
	view  *view.View[serviceProfileKey, serviceProfile]
	leave func()
}

// Next implements stream.Source. It sends equal messages again (D106). Where
// profiles are strict, the stream ends with the Service, and a client that asks
// again is told so.
func (s *serviceSource) Next() stream.Step {
	now := s.view.Current()
	step := stream.Step{Gone: now.Value.standing == missing, Fault: now.Fault}
	step.WakeOn(now.Superseded())
	if m := now.Value.message; m != nil {
		step.Send(m)
	}
	return step
}

func (s *serviceSource) close() {
	s.view.Release()
	s.leave()
}
