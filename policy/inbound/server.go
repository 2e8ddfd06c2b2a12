package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// Config is what a Server needs. The fields of the second half are flags of
// the policy controller, in the form of their values (policy-inbound 1.2).
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

// Server is the InboundServerPolicies service. Its streams need a gRPC server
// with the codec of internal/grpcserver.
type Server struct {
	pb.UnimplementedInboundServerPoliciesServer

	state         *state.State
	index         *index
	deriver       *deriver
	graph         *view.Graph
	follower      *stream.Follower
	defaultPolicy policyName
	placements    *view.Set[workloadKey, placement]
	answers       *view.Set[answerKey, answer]
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
	networks := config.PolicyNetworks().Ranges()
	if len(networks) == 0 {
		return nil, errors.New("cluster-networks: there is none, and proxies refuse policies that are for no network")
	}
	defaultPolicy, err := parsePolicyName(config.DefaultPolicy)
	if err != nil {
		return nil, fmt.Errorf("default-policy: %w", err)
	}
	d := &deriver{
		messages: newMessages(networks, config.ProbeNetworks.Ranges()),
		mesh:     mesh{controlPlaneNamespace: config.ControlPlaneNamespace, trustDomain: config.TrustDomain},
	}
	ix := newIndex(config.State, d, config.Routes)
	if config.Registerer != nil {
		if err := config.Registerer.Register(newSizes(config.State, ix)); err != nil {
			return nil, fmt.Errorf("inbound policy: %w", err)
		}
	}
	return &Server{
		state:         config.State,
		index:         ix,
		deriver:       d,
		graph:         config.Graph,
		follower:      stream.NewFollower(stream.Config{Stopping: config.Stopping, Log: log}),
		defaultPolicy: defaultPolicy,
		placements:    newPlacements(config.Graph, ix),
		answers:       newAnswers(config.Graph, ix),
	}, nil
}

// GetPort returns the policy of a port.
func (s *Server) GetPort(ctx context.Context, spec *pb.PortSpec) (*pb.Server, error) {
	p, err := s.open(spec)
	if err != nil {
		return nil, err
	}
	defer p.close()
	now := p.current()
	if fault := now.fault(); fault != nil {
		return nil, stream.Unavailable(fault)
	}
	if now.workload() == nil {
		return nil, errUnknown()
	}
	answer := &pb.Server{}
	if err := proto.Unmarshal(now.encoded().Bytes(), answer); err != nil {
		return nil, status.Errorf(codes.Internal, "lookup failed: %v", err)
	}
	if names := s.overlapping(now.workload(), p.number); len(names) > 0 {
		// Who does not read headers has the whole answer without it.
		_ = grpc.SetHeader(ctx, metadata.Pairs(OverlapHeader, strings.Join(names, ", ")))
	}
	return answer, nil
}

// WatchPort sends the policy of a port and then each new one. It ends with OK
// when the workload goes or the server stops (policy-inbound 2.2).
func (s *Server) WatchPort(spec *pb.PortSpec, out grpc.ServerStreamingServer[pb.Server]) error {
	p, err := s.open(spec)
	if err != nil {
		return err
	}
	defer p.close()
	source := &portSource{port: p}
	if now := p.current(); now.workload() != nil {
		source.uid = now.workload().GetUID()
	} else if now.placement.Fault == nil {
		return errUnknown()
	}
	return s.follower.Follow(out, stream.Call{Client: spec.GetWorkload(), Target: strconv.Itoa(int(spec.GetPort()))}, source)
}

// portSource is the policy of a port on one stream.
type portSource struct {
	*port
	// uid is that of the workload that was asked for.
	uid  types.UID
	sent *grpcserver.Encoded
}

// Next implements stream.Source. Versions that came and went while the client
// did not read leave the answer it has. A workload of another UID is not the
// one that was asked for.
func (s *portSource) Next() stream.Step {
	now := s.current()
	step := stream.Step{Fault: now.fault()}
	step.WakeOn(now.placement.Superseded())
	if now.placement.Fault != nil {
		return step
	}
	if now.workload() == nil || now.workload().GetUID() != s.uid {
		return stream.Step{Gone: true}
	}
	step.WakeOn(now.answer.Superseded())
	if m := now.encoded(); m != nil && !m.Equal(s.sent) {
		step.Send(m)
		s.sent = m
	}
	return step
}

func errUnknown() error { return status.Error(codes.NotFound, "unknown server") }
