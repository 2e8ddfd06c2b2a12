package inbound

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy"
)

// Config is what a Server needs. The fields of the second half are flags of
// the policy controller, in the form of their values (policy-inbound 1.2).
type Config struct {
	State *state.State
	Graph *view.Graph
	// Stopping is closed when streams must end, which they do with status OK
	// (P313). Nil means never.
	Stopping <-chan struct{}
	// Log may be nil.
	Log *slog.Logger
	// Registerer gets the sizes of the index; nil means no metrics.
	Registerer prometheus.Registerer

	// ClusterNetworks and ProbeNetworks are lists of address ranges. Without
	// ProbeNetworks, probes get no route.
	ClusterNetworks string
	ProbeNetworks   string
	// DefaultPolicy is the policy of ports that have no Server.
	DefaultPolicy         string
	TrustDomain           string
	ControlPlaneNamespace string
}

// DefaultConfig returns the values that Linkerd's chart sets, but for the IPv6
// range in its cluster networks.
func DefaultConfig() Config {
	return Config{
		ClusterNetworks:       linkerd.DefaultClusterNetworks,
		ProbeNetworks:         linkerd.DefaultProbeNetworks,
		DefaultPolicy:         linkerd.DefaultInboundPolicy,
		TrustDomain:           linkerd.DefaultClusterDomain,
		ControlPlaneNamespace: linkerd.DefaultControlPlaneNamespace,
	}
}

// Server is the InboundServerPolicies service. Its streams need a gRPC server
// with the codec of internal/grpcserver.
type Server struct {
	pb.UnimplementedInboundServerPoliciesServer

	stopping <-chan struct{}
	views    *views
}

var _ pb.InboundServerPoliciesServer = (*Server)(nil)

// New returns a server. It does no I/O and starts nothing. It adds derived
// kinds to the state, which therefore must not run or be read yet, and
// families of views to the graph.
func New(config Config) (*Server, error) {
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	clusterNetworks, err := policy.ParseNetworks(config.ClusterNetworks)
	if err != nil {
		return nil, fmt.Errorf("cluster-networks: %w", err)
	}
	probeNetworks, err := policy.ParseNetworks(config.ProbeNetworks)
	if err != nil {
		return nil, fmt.Errorf("probe-networks: %w", err)
	}
	defaultPolicy, err := parsePolicyName(config.DefaultPolicy)
	if err != nil {
		return nil, fmt.Errorf("default-policy: %w", err)
	}
	f := &former{
		log:             log,
		mesh:            mesh{controlPlaneNamespace: config.ControlPlaneNamespace, trustDomain: config.TrustDomain},
		clusterNetworks: networkMessages(clusterNetworks),
	}
	ix, err := newIndex(config.State, f)
	if err != nil {
		return nil, fmt.Errorf("inbound policy: %w", err)
	}
	if config.Registerer != nil {
		if err := config.Registerer.Register(newSizes(config.State, ix)); err != nil {
			return nil, fmt.Errorf("inbound policy: %w", err)
		}
	}
	return &Server{
		stopping: config.Stopping,
		views: newViews(config.Graph, ix, rules{
			defaultPolicy:   defaultPolicy,
			clusterNetworks: f.clusterNetworks,
			probeNetworks:   networkMessages(probeNetworks),
		}),
	}, nil
}

// GetPort returns the policy of a port.
func (s *Server) GetPort(_ context.Context, spec *pb.PortSpec) (*pb.Server, error) {
	v, first, err := s.acquire(spec)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	answer := &pb.Server{}
	if err := proto.Unmarshal(first.Value.encoded.Bytes(), answer); err != nil {
		return nil, status.Errorf(codes.Internal, "lookup failed: %v", err)
	}
	return answer, nil
}

// WatchPort sends the policy of a port and then each new one. It ends with OK
// when the workload goes or the server stops (policy-inbound 2.2).
func (s *Server) WatchPort(spec *pb.PortSpec, stream grpc.ServerStreamingServer[pb.Server]) error {
	v, current, err := s.acquire(spec)
	if err != nil {
		return err
	}
	defer v.Release()
	first, sent := current.Value, answer{}
	for {
		// Versions that came and went while the client did not read leave
		// the answer it has.
		if !sent.equal(current.Value) {
			if err := stream.SendMsg(current.Value.encoded); err != nil {
				return err
			}
			sent = current.Value
		}
		select {
		case <-current.Superseded():
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.stopping:
			return nil
		}
		current = v.Current()
		if current.Value.encoded == nil || current.Value.uid != first.uid {
			return nil
		}
	}
}

// acquire returns the view of a port, to be released, with its present version.
func (s *Server) acquire(spec *pb.PortSpec) (*view.View[portKey, answer], *view.Version[answer], error) {
	workload, err := parseToken(spec.GetWorkload())
	if err != nil {
		return nil, nil, status.Errorf(codes.InvalidArgument, "Invalid workload: %s", spec.GetWorkload())
	}
	if spec.GetPort() < 1 || spec.GetPort() > 65535 {
		return nil, nil, status.Errorf(codes.InvalidArgument, "Invalid port: %d", spec.GetPort())
	}
	v := s.views.ports.Acquire(portKey{workload, uint16(spec.GetPort())})
	current := v.Current()
	if current.Value.encoded == nil {
		v.Release()
		return nil, nil, status.Error(codes.NotFound, "unknown server")
	}
	return v, current, nil
}
