package destination

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Get streams the endpoints of a Service: everything at first, then what
// changes. An existing Service without endpoints is silence (D section 0).
func (s *Server) Get(request *pb.GetDestination, stream grpc.ServerStreamingServer[pb.Update]) error {
	token := parseContextToken(request.ContextToken, s.log)
	target, err := s.resolve(request.Path)
	if err != nil {
		return err
	}
	if target.federated {
		return s.federate(stream, federationKey{target.namespace, target.service}, target, token.Node)
	}
	return s.follow(stream, s.newCursor(target.views, target.portKey, target.hostname, token.Node), target.link)
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

// follow sends a cursor's updates until the client leaves, the server stops or
// the link, unless nil, is gone; the server's own ends are status OK (D section
// 0). It closes the cursor.
func (s *Server) follow(stream grpc.ServerStream, c cursor, link *Link) error {
	defer c.close()
	ctx := stream.Context()
	var relinked <-chan struct{}
	for {
		if link != nil {
			var now *Link
			if now, relinked = s.links.Lookup(link.Cluster); now != link {
				return nil
			}
		}
		if !send(stream, c.advance()) {
			return nil
		}
		select {
		case <-c.superseded():
		case <-c.rezoned():
		case <-relinked:
		case <-s.config.Stopping:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// send writes the messages of an update, if there is one, and says whether the
// stream is still there. It blocks while the client does not read, which
// concerns nobody else (B01).
func send(stream grpc.ServerStream, u *update) bool {
	if u == nil {
		return true
	}
	for _, m := range u.messages {
		if err := stream.SendMsg(m); err != nil {
			return false
		}
	}
	return true
}
