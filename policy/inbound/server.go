package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
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
	stopping      <-chan struct{}
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
		log:      log,
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
		stopping:      config.Stopping,
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
	for {
		now := p.current()
		if now.workload() == nil {
			return nil, errUnknown()
		}
		if now.encoded == nil {
			select {
			case <-now.placement.Superseded():
			case <-now.answer.Superseded():
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			continue
		}
		answer := &pb.Server{}
		if err := proto.Unmarshal(now.encoded.Bytes(), answer); err != nil {
			return nil, status.Errorf(codes.Internal, "lookup failed: %v", err)
		}
		if names := s.overlapping(now.workload(), p.number); len(names) > 0 {
			// Who does not read headers has the whole answer without it.
			_ = grpc.SetHeader(ctx, metadata.Pairs(OverlapHeader, strings.Join(names, ", ")))
		}
		return answer, nil
	}
}

// WatchPort sends the policy of a port and then each new one. It ends with OK
// when the workload goes or the server stops (policy-inbound 2.2).
func (s *Server) WatchPort(spec *pb.PortSpec, stream grpc.ServerStreamingServer[pb.Server]) error {
	p, err := s.open(spec)
	if err != nil {
		return err
	}
	defer p.close()
	now := p.current()
	if now.workload() == nil {
		return errUnknown()
	}
	first := now.workload().GetUID()
	var sent *grpcserver.Encoded
	for {
		// Versions that came and went while the client did not read leave
		// the answer it has.
		if now.encoded != nil && !sameBytes(sent, now.encoded) {
			if err := stream.SendMsg(now.encoded); err != nil {
				return err
			}
			sent = now.encoded
		}
		select {
		case <-now.placement.Superseded():
		case <-now.answer.Superseded():
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.stopping:
			return nil
		}
		// A workload of another UID is not the one that was asked for.
		now = p.current()
		if now.workload() == nil || now.workload().GetUID() != first {
			return nil
		}
	}
}

func errUnknown() error { return status.Error(codes.NotFound, "unknown server") }
