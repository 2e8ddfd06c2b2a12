package destination

import (
	"bytes"
	"net/netip"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
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
	services := &serviceProfiles{clusterDomain: config.ClusterDomain, opaquePorts: m.opaquePorts, log: local.log}
	endpoints := &endpointProfiles{mesh: m, trustDomain: config.TrustDomain, servers: local.servers, log: local.log}
	return &profiles{
		services:  services.newSet(config.Graph),
		endpoints: endpoints.newSet(config.Graph),
		metrics:   metrics,
	}, nil
}

// GetProfile streams the profile of a Service or of an endpoint, whichever the
// path means at the time of the call (D section 2.1).
func (s *Server) GetProfile(request *pb.GetDestination, stream grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	token := parseContextToken(request.ContextToken, s.log)
	path := request.Path
	a, err := parseAuthority(path)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "invalid authority: %q: %q", path, err)
	}
	r := s.config.State.Snapshot().Reader()
	if ip, ok := netip.AddrFromSlice(a.ip()); ok {
		return s.profileOfIP(r, netip.AddrPortFrom(ip.Unmap(), uint16(a.port)), token, stream)
	}
	name, err := parseServiceName(a.host, s.config.ClusterDomain)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "invalid service %q: %q", a.host, err)
	}
	if name.hostname == "" {
		service, _ := state.Get(r, state.Services, name.namespace, name.service)
		if service != nil && service.Spec.Type == corev1.ServiceTypeExternalName {
			return status.Errorf(codes.InvalidArgument, "Invalid authority: %s", path)
		}
		return s.profileOfService(serviceProfileKey{name.namespace, name.service, a.port, token.Namespace}, service, stream)
	}
	return s.profileOfInstance(r, name, a.port, stream)
}

// profileOfIP looks for a Service first, then for what runs at the address.
func (s *Server) profileOfIP(r *state.Reader, addr netip.AddrPort, token contextToken, stream grpc.ServerStream) error {
	ip := addr.Addr().String()
	var services []*corev1.Service
	for service := range state.By(r, state.Services, state.ServicesByIP, ip) {
		services = append(services, service)
	}
	switch {
	case len(services) == 1:
		return s.profileOfService(serviceProfileKey{services[0].Namespace, services[0].Name, uint32(addr.Port()), token.Namespace}, services[0], stream)
	case len(services) > 1:
		return status.Errorf(codes.FailedPrecondition, "found %d services with conflicting cluster IP %s", len(services), ip)
	}
	if _, err := findBacking(r, addr, ""); err != nil {
		return err
	}
	return s.profileOfEndpoint(endpointKey{addr: addr}, stream)
}

// profileOfInstance is about the pod behind an instance's name, also where a
// lookup of its address would not lead to it: the pod may be in its host's
// network.
func (s *Server) profileOfInstance(r *state.Reader, name serviceName, port uint32, stream grpc.ServerStream) error {
	pod, err := s.instancePod(r, name)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		// The pod has no address yet: there is nothing to say (D section 2.4).
		return s.idle(stream)
	}
	key := endpointKey{addr: netip.AddrPortFrom(ip.Unmap(), uint16(port))}
	if behind, err := findBacking(r, key.addr, ""); err != nil || behind.pod != pod {
		key.pod = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
	return s.profileOfEndpoint(key, stream)
}

// profileOfEndpoint leaves out messages that equal the last one (D137).
func (s *Server) profileOfEndpoint(key endpointKey, stream grpc.ServerStream) error {
	defer s.profiles.metrics.joinWorkload()()
	var last *grpcserver.Encoded
	return followProfile(s, stream, s.profiles.endpoints.Acquire(key), func(p endpointProfile) *grpcserver.Encoded {
		if p.message == nil || last != nil && bytes.Equal(last.Bytes(), p.message.Bytes()) {
			return nil
		}
		last = p.message
		s.profiles.metrics.workloadUpdates.Inc()
		return p.message
	})
}

// profileOfService sends equal messages again (D106). service is nil if it is
// not there, which does not matter unless profiles are strict.
func (s *Server) profileOfService(key serviceProfileKey, service *corev1.Service, stream grpc.ServerStream) error {
	if s.config.StrictProfiles {
		if service == nil {
			return status.Errorf(codes.Unknown, "service %q not found", key.service)
		}
		if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return uint32(p.Port) == key.port }) {
			// Proxies ask for the outbound policy then, which knows no such port either.
			if err := stream.SendMsg(&pb.DestinationProfile{}); err != nil {
				return nil
			}
			return s.idle(stream)
		}
	}
	defer s.profiles.metrics.joinService(key, fullName(key.service, key.namespace, s.config.ClusterDomain))()
	return followProfile(s, stream, s.profiles.services.Acquire(key), func(p serviceProfile) *grpcserver.Encoded { return p.message })
}

// followProfile sends what message makes of each version of a view, unless it
// is nil. It releases the view.
func followProfile[K comparable, V any](s *Server, stream grpc.ServerStream, v *view.View[K, V], message func(V) *grpcserver.Encoded) error {
	defer v.Release()
	for {
		current := v.Current()
		if m := message(current.Value); m != nil {
			if err := stream.SendMsg(m); err != nil {
				return nil
			}
		}
		select {
		case <-current.Superseded():
		case <-s.config.Stopping:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

// idle keeps a stream open that has nothing to tell.
func (s *Server) idle(stream grpc.ServerStream) error {
	select {
	case <-s.config.Stopping:
	case <-stream.Context().Done():
	}
	return nil
}
