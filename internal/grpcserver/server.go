package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/openconns"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

const (
	// connectionTimeout bounds the set-up of a connection (D 1.1).
	connectionTimeout = 120 * time.Second
	// maxReceive is the size limit of a request in bytes (D 1.1).
	maxReceive = 4 << 20
	// maxHeaderList is the size limit of a request's headers in bytes. Proxies
	// send a few hundred.
	maxHeaderList = 64 << 10
	// minPing is how close together client pings may be. Linkerd's 5 minutes
	// are strict enough to cut off clients with ordinary settings (D 1.1, O).
	minPing = time.Second
	// readBuffer is the read buffer of a connection in bytes: requests are
	// small, and every connection holds one for its whole life.
	readBuffer = 4 << 10
	// streamWindow and connWindow are the flow-control windows in bytes. They
	// are fixed: what flows towards the server never needs larger ones.
	streamWindow = 64 << 10
	connWindow   = 256 << 10
	// maxMessage bounds the text of an error in bytes: it may quote what the client sent, and a
	// client that gets larger headers than it takes sees Internal instead of the code (F11).
	maxMessage = 4 << 10
	// stopGrace is how long a stop waits for clients to take the end of their
	// streams before it closes their connections.
	stopGrace = 250 * time.Millisecond
)

// Observer is told of every call, for metrics of its own. Start is called when
// a call begins; the function it returns, unless nil, when the call ends.
type Observer interface {
	Start(ctx context.Context, fullMethod string) (end func(codes.Code))
}

// Config is what differs between servers.
type Config struct {
	// Metrics is shared by all servers of a process.
	Metrics *Metrics
	// Naming is how grpc_code is spelt.
	Naming Naming
	// Credentials sets up connections; nil means plaintext for everyone.
	Credentials credentials.TransportCredentials
	// Observer may be nil.
	Observer Observer
}

// Server serves gRPC services on any number of listeners. Register services
// before Serve.
type Server struct {
	grpc     *grpc.Server
	metrics  *Metrics
	naming   Naming
	observer Observer
	// methods is written by RegisterService only, so before Serve.
	methods  map[string]*method
	done     chan struct{}
	panicked chan error
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// New returns a server without services.
func New(config Config) *Server {
	s := &Server{
		metrics:  config.Metrics,
		naming:   config.Naming,
		observer: config.Observer,
		methods:  map[string]*method{},
		done:     make(chan struct{}),
		panicked: make(chan error, 1),
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(NewCodec()),
		grpc.MaxConcurrentStreams(math.MaxUint32), // not advertised (D 1.1, B16)
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	}
	if config.Credentials != nil {
		options = append(options, grpc.Creds(config.Credentials))
	}
	s.grpc = grpc.NewServer(options...)
	return s
}

// RegisterService adds a service.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	for _, m := range desc.Methods {
		s.add(desc.ServiceName, m.MethodName, false)
	}
	for _, m := range desc.Streams {
		s.add(desc.ServiceName, m.StreamName, true)
	}
	s.grpc.RegisterService(desc, impl)
}

func (s *Server) add(service, name string, stream bool) {
	m := s.metrics.method(service, name, stream, s.naming)
	s.methods[m.name] = m
}

// Done is closed when the server begins to stop. Stream handlers must select
// on it and return nil, so that clients see the end as OK and come back.
func (s *Server) Done() <-chan struct{} { return s.done }

// Serve serves until ctx ends, then stops: streams end by their handlers, then
// connections, the slow ones after a grace period of 250 ms. It returns nil
// after a stop, else the reason why it could not go on: a listener that broke
// or a handler that panicked. All handlers have returned by then. It closes
// the listeners, and may be called once.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	conns := &openconns.Set{}
	group, running := lifecycle.NewGroup(ctx)
	for _, l := range listeners {
		group.Go("gRPC on "+l.Addr().String(), func() error {
			if err := s.grpc.Serve(&listener{l, conns}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	var err error
	select {
	case <-running.Done():
	case err = <-s.panicked:
	}
	s.stop(conns)
	if ended := group.Wait(); err == nil {
		err = ended
	}
	return err
}

// stop ends the server in bounded time if handlers keep their promise.
func (s *Server) stop(conns *openconns.Set) {
	close(s.done)
	drained := lifecycle.Go("graceful stop", func() error {
		s.grpc.GracefulStop()
		return nil
	})
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-drained:
	case <-grace.C:
		// The sockets first: grpc-go waits for handshakes, and TLS for peers
		// that do not read.
		conns.Close()
		s.grpc.Stop()
		<-drained
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	m := s.methods[info.FullMethod]
	c := s.begin(ctx, m)
	m.received.Inc()
	defer func() {
		if v := recover(); v != nil {
			err = s.panic(m, v)
		}
		if err == nil && s.naming == ControllerNaming {
			m.sent.Inc()
		}
		c.end(codeOf(err))
		err = bounded(err)
	}()
	return handler(ctx, req)
}

func (s *Server) stream(impl any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	m := s.methods[info.FullMethod]
	c := s.begin(ss.Context(), m)
	defer func() {
		if v := recover(); v != nil {
			err = s.panic(m, v)
		}
		c.end(codeOf(err))
		err = bounded(err)
	}()
	return handler(impl, &countedStream{ss, m})
}

// bounded is err with at most maxMessage bytes of text.
func bounded(err error) error {
	if st, _ := status.FromError(err); len(st.Message()) > maxMessage {
		return status.Error(st.Code(), printable.Cut(st.Message(), maxMessage))
	}
	return err
}

// call is one call that has begun. It is a value, so that an open stream keeps
// nothing of it on the heap.
type call struct {
	method   *method
	start    time.Time
	observed func(codes.Code)
}

// begin counts the begin of a call.
func (s *Server) begin(ctx context.Context, m *method) call {
	c := call{method: m, start: time.Now()}
	m.started.Inc()
	if s.observer != nil {
		c.observed = s.observer.Start(ctx, m.name)
	}
	return c
}

// end counts the end of the call.
func (c call) end(code codes.Code) {
	c.method.end(code, c.start)
	if c.observed != nil {
		c.observed(code)
	}
}

// panic makes Serve return v: parts share one fault domain, so a handler that
// panics is not answered for by carrying on.
func (s *Server) panic(m *method, v any) error {
	select {
	case s.panicked <- fmt.Errorf("handle %s: %w", m.name, &lifecycle.PanicError{Value: v, Stack: debug.Stack()}):
	default: // another one is being reported
	}
	return status.Error(codes.Internal, "the handler of this call failed")
}
