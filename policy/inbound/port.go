package inbound

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// port is what one call holds: the placement of its workload, and the answer
// that this leads to. Both are shared with all calls for which they are the
// same. It is for one goroutine.
type port struct {
	server    *Server
	number    uint16
	placement *view.View[workloadKey, placement]
	answer    *view.View[answerKey, answer]
}

// open reads a request. The port is to be closed.
func (s *Server) open(spec *pb.PortSpec) (*port, error) {
	workload, err := parseToken(spec.GetWorkload())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid workload: %s", spec.GetWorkload())
	}
	if spec.GetPort() < 1 || spec.GetPort() > 65535 {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid port: %d", spec.GetPort())
	}
	return &port{server: s, number: uint16(spec.GetPort()), placement: s.placements.Acquire(workload)}, nil
}

func (p *port) close() {
	p.placement.Release()
	if p.answer != nil {
		p.answer.Release()
	}
}

// portState is versions of a placement and of an answer; the answer is nil if
// there is no workload.
type portState struct {
	placement *view.Version[placement]
	answer    *view.Version[answer]
	// encoded is nil while the two do not belong together.
	encoded *grpcserver.Encoded
}

func (s portState) workload() *workload { return s.placement.Value.workload }

// current returns the newest versions. They are published one by one, and the
// one can have heard of a new version of the Server before the other. Until
// both have, the answer is not for this port: a Server that lets others in and
// turns to other workloads at the same time must not be heard here.
func (p *port) current() portState {
	now := portState{placement: p.placement.Current()}
	if now.workload() == nil {
		return now
	}
	key := now.placement.Value.answerKey(p.number, p.server.defaultPolicy)
	if p.answer == nil || p.answer.Key != key {
		if p.answer != nil {
			p.answer.Release()
		}
		p.answer = p.server.answers.Acquire(key)
	}
	now.answer = p.answer.Current()
	if now.answer.Value.server == now.placement.Value.owner(p.number) {
		now.encoded = now.answer.Value.encoded
	}
	return now
}
