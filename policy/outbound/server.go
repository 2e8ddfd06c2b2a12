package outbound

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// Config is what a Server needs.
type Config struct {
	State *state.State
	Graph *view.Graph
	// Routes are those of the State.
	Routes *gateway.Routes
	// Stopping is closed when streams must end, which they do with status OK
	// (P313). Nil means never.
	Stopping <-chan struct{}
	// Log may be nil.
	Log *slog.Logger
	// Registerer gets the sizes of the index; nil means no metrics.
	Registerer prometheus.Registerer

	linkerd.Settings
}

// Server is the OutboundPolicies service. Its streams need a gRPC server with
// the codec of internal/grpcserver.
type Server struct {
	pb.UnimplementedOutboundPoliciesServer

	state           *state.State
	graph           *view.Graph
	follower        *stream.Follower
	clusterDomain   string
	clusterNetworks []netip.Prefix
	views           *views
}

var _ pb.OutboundPoliciesServer = (*Server)(nil)

// New returns a server. It does no I/O and starts nothing. It adds derived
// kinds to the state, which therefore must not run or be read yet, and
// families of views to the graph.
func New(config Config) (*Server, error) {
	d := &deriver{clusterNetworks: config.PolicyNetworks().Ranges(), opaquePorts: config.DefaultOpaquePorts.PortSet}
	ix := newIndex(config.State, d, config.Routes)
	if config.Registerer != nil {
		if err := config.Registerer.Register(newSizes(config.State, ix)); err != nil {
			return nil, fmt.Errorf("outbound policy: %w", err)
		}
	}
	return &Server{
		state:           config.State,
		graph:           config.Graph,
		follower:        stream.NewFollower(stream.Config{Stopping: config.Stopping, Log: config.Log}),
		clusterDomain:   config.ClusterDomain,
		clusterNetworks: d.clusterNetworks,
		views:           newViews(config.Graph, ix, config),
	}, nil
}

// Get returns the policy for a target.
func (s *Server) Get(_ context.Context, spec *pb.TrafficSpec) (*pb.OutboundPolicy, error) {
	sub, err := s.subscribe(spec)
	if err != nil {
		return nil, err
	}
	defer sub.release()
	now := sub.answer.Current()
	if now.Fault != nil {
		return nil, stream.Unavailable(now.Fault)
	}
	answer := &pb.OutboundPolicy{}
	if err := proto.Unmarshal(now.Value.Bytes(), answer); err != nil {
		return nil, status.Errorf(codes.Internal, "failed to get outbound policy: %v", err)
	}
	return answer, nil
}

// Watch sends the policy for a target and then each new one. It ends with OK
// when the server stops, and when an address outside the cluster stands for
// something else (policy-outbound 2).
func (s *Server) Watch(spec *pb.TrafficSpec, out grpc.ServerStreamingServer[pb.OutboundPolicy]) error {
	sub, err := s.subscribe(spec)
	if err != nil {
		return err
	}
	defer sub.release()
	return s.follower.Follow(out, call(spec), sub)
}

// call says who asks for what.
func call(spec *pb.TrafficSpec) stream.Call {
	c := stream.Call{Client: spec.GetSourceWorkload(), Target: spec.GetAuthority()}
	if address := spec.GetAddr(); address != nil {
		c.Target = address.AddrPort().String()
	}
	return c
}
