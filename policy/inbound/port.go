package inbound

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
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

// portState is versions of a placement and of an answer that belong together;
// the answer is nil if there is no workload.
type portState struct {
	placement *view.Version[placement]
	answer    *view.Version[answer]
}

func (s portState) workload() *workload { return s.placement.Value.workload }

// encoded is nil where there is no answer through a fault of ours.
func (s portState) encoded() *grpcserver.Encoded { return s.answer.Value.encoded }

// belong tells whether both are of one version of the port's Server.
func (s portState) belong(port uint16) bool {
	return s.answer == nil || s.answer.Value.server == s.placement.Value.owner(port)
}

func (s portState) fault() *problems.Fault {
	if s.placement.Fault != nil || s.answer == nil {
		return s.placement.Fault
	}
	return s.answer.Fault
}

// current returns the newest versions that belong together. A Server that lets
// others in and turns to other workloads at the same time must not be heard here:
// the answer is that of the Server that the placement names, in one version.
func (p *port) current() portState {
	for {
		now := p.read()
		if !now.belong(p.number) {
			// One of them is not through with a change yet.
			p.server.graph.Together(func() { now = p.read() })
		}
		if now.workload() == nil || now.answer != nil {
			return now
		}
		answer := p.server.answers.Acquire(p.key(now.placement.Value))
		if p.answer != nil {
			p.answer.Release()
		}
		p.answer = answer
	}
}

// read takes the newest versions. Without an answer for what the placement
// leads to, there is none.
func (p *port) read() portState {
	now := portState{placement: p.placement.Current()}
	if now.workload() != nil && p.answer != nil && p.answer.Key == p.key(now.placement.Value) {
		now.answer = p.answer.Current()
	}
	return now
}

func (p *port) key(placed placement) answerKey {
	return placed.answerKey(p.number, p.server.defaultPolicy)
}
