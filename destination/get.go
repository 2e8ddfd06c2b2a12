package destination

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
)

// Get streams the endpoints of a Service: everything at first, then what
// changes. An existing Service without endpoints is silence (D section 0).
func (s *Server) Get(request *pb.GetDestination, out grpc.ServerStreamingServer[pb.Update]) error {
	token := parseContextToken(request.ContextToken, s.log)
	source, err := s.endpointsOf(request.Path, token.Node)
	if err != nil {
		return err
	}
	defer source.close()
	return s.follower.Follow(out, token.call(request.Path), source)
}

// endpointsOf is what a client on node follows that asks for path. It is to be closed.
func (s *Server) endpointsOf(path, node string) (closableSource, error) {
	target, err := s.resolve(path)
	switch {
	case err != nil:
		return nil, err
	case target.federated:
		return s.newFederated(target, node), nil
	}
	return &endpointsSource{s.newCursor(target.views, target.portKey, target.hostname, node), s.links, target.link}, nil
}

type closableSource interface {
	stream.Source
	close()
}

// target is what a path means at the time of the call: the mode of a stream
// does not change while it lasts (D section 1.5).
type target struct {
	portKey
	hostname string
	// federated: the Service stands for its members.
	federated bool
	views     *clusterViews
	// link is the remote cluster, nil for the local one.
	link *Link
}

// resolve finds out what path means. Of several things that are wrong the first
// is told, in this order: an authority that cannot be read, an IP address, a name
// that is no Service's, a Service that is not there, a mirror that names no
// remote Service, a cluster that is not linked, an ExternalName (D section 1.4).
// Proxies give up for good on InvalidArgument and FailedPrecondition, and ask
// again after every other code.
func (s *Server) resolve(path string) (target, error) {
	invalid := status.Errorf(codes.InvalidArgument, "Invalid authority: %s", path)
	a, err := parseAuthority(path)
	if err != nil {
		return target{}, invalid
	}
	if a.ip() != nil {
		return target{}, status.Errorf(codes.InvalidArgument, "IP queries not supported by Get API: host=%s", a.host)
	}
	name, err := parseServiceName(a.host, s.config.ClusterDomain)
	if err != nil {
		return target{}, invalid
	}
	service, ok := s.service(s.config.State, name.namespace, name.service)
	if !ok {
		return target{}, status.Errorf(codes.NotFound, "Service %s.%s not found", name.service, name.namespace)
	}
	t := target{portKey: portKey{name.namespace, name.service, a.port}, hostname: name.hostname, views: s.local}
	if isFederated(service) {
		t.federated = true
		return t, nil
	}
	if cluster, remote := service.Labels[linkerd.RemoteDiscoveryLabel]; remote {
		if t.service, ok = service.Labels[linkerd.RemoteServiceLabel]; !ok {
			return target{}, status.Errorf(codes.FailedPrecondition, "Remote discovery service missing remote service name %s", path)
		}
		link, _ := s.links.Lookup(cluster)
		if link == nil {
			return target{}, status.Errorf(codes.NotFound, "Remote cluster not found: %s", cluster)
		}
		t.views, t.link = s.viewsOf(link), link
		service, _ = s.service(link.State, name.namespace, t.service)
	}
	if service != nil && service.Spec.Type == corev1.ServiceTypeExternalName {
		return target{}, invalid
	}
	return t, nil
}

func (s *Server) service(st *state.State, namespace, name string) (*corev1.Service, bool) {
	return state.Get(st.Snapshot().Reader(), state.Services, namespace, name)
}

// endpointsSource is the endpoints of a Service on one stream.
type endpointsSource struct {
	cursor
	links Links
	// link is the remote cluster, nil for the local one.
	link *Link
}

// Next implements stream.Source. The stream ends when the link is gone.
func (s *endpointsSource) Next() (step stream.Step) {
	if s.link != nil {
		now, relinked := s.links.Lookup(s.link.Cluster)
		if now != s.link {
			return stream.Step{Gone: true}
		}
		step.WakeOn(relinked)
	}
	if u := s.advance(); u != nil {
		step.Messages = u.messages
	}
	step.Fault = s.now.Fault
	s.wakeOn(&step)
	return step
}
