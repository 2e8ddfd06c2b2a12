package proxyshim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// refusalLogs bounds how many refusals are logged: who knocks in a loop fills
// no disk. All are counted.
const (
	refusalLogsPerSecond = 10
	refusalLogsBurst     = 50
)

// Service is one gRPC service of the control plane and where it is reached.
type Service struct {
	// Port is that of Linkerd's own: in transport headers and metrics, also
	// where a listener has another one.
	Port uint16
	// ServerName is the identity under which it is reached by TLS.
	ServerName string
	// ClientCertificate says that a client needs one. A proxy has none before it
	// is certified, and asks destination and policy by then.
	ClientCertificate bool
	Naming            grpcserver.Naming
	// Listeners are closed by Run. Only on those of a loopback address is
	// plaintext served.
	Listeners []net.Listener
}

// Config sets up a Shim.
type Config struct {
	Services []Service
	// Inbound listeners are the direct path, which is off without any.
	Inbound []net.Listener
	// InboundPort is the direct path's port in logs and metrics.
	InboundPort uint16
	// Issuer may be nil: then only plaintext is served.
	Issuer Issuer
	// GRPC are the gRPC metrics that all services share.
	GRPC       *grpcserver.Metrics
	Registerer prometheus.Registerer
	Clock      clock.WithTicker
	Log        *slog.Logger
}

// Shim serves the control plane's gRPC services.
type Shim struct {
	config    Config
	services  []*service
	metrics   *metrics
	directTLS *tls.Config
	direct    *direct
	logs      *rate.Limiter
	// timeout is handshakeTimeout but in tests.
	timeout time.Duration
}

// service is a Service at work.
type service struct {
	Service
	certificate *certificate
	server      *grpcserver.Server
	handoff     *Handoff
}

// New sets up the servers; register services with Server before Run.
func New(config Config) (*Shim, error) {
	m, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Shim{
		config: config, metrics: m, timeout: handshakeTimeout,
		logs: rate.NewLimiter(refusalLogsPerSecond, refusalLogsBurst),
	}
	certificates := map[string]*certificate{}
	handoffs := map[uint16]*Handoff{}
	for _, c := range config.Services {
		if _, dup := handoffs[c.Port]; dup {
			return nil, fmt.Errorf("two services of the control plane have port %d", c.Port)
		}
		svc := &service{Service: c, certificate: certificates[c.ServerName]}
		if svc.certificate == nil {
			svc.certificate = &certificate{name: c.ServerName, issuer: config.Issuer, clock: config.Clock, log: config.Log}
			certificates[c.ServerName] = svc.certificate
		}
		port := &portCredentials{termination: termination{shim: s, services: []*service{svc}}}
		port.tls = port.config()
		svc.server = grpcserver.New(grpcserver.Config{Metrics: config.GRPC, Naming: c.Naming, Credentials: port, Observer: m})
		if len(config.Inbound) > 0 {
			svc.handoff = NewHandoff(config.Inbound[0].Addr())
			handoffs[c.Port] = svc.handoff
		} else {
			handoffs[c.Port] = nil
		}
		s.services = append(s.services, svc)
	}
	s.direct = &direct{termination: termination{shim: s, services: s.services, direct: true}, handoffs: handoffs}
	s.directTLS = s.direct.config()
	return s, nil
}

// Server is the gRPC server of the service with the port, nil if there is none.
func (s *Shim) Server(port uint16) *grpcserver.Server {
	for _, svc := range s.services {
		if svc.Port == port {
			return svc.server
		}
	}
	return nil
}

// Run serves until ctx ends, and returns the reason when it cannot go on. It
// needs the issuer to be ready, and calls ready when all services are served.
func (s *Shim) Run(ctx context.Context, ready func()) error {
	var certificates []*certificate
	seen := map[*certificate]bool{}
	for _, svc := range s.services {
		if s.config.Issuer == nil || seen[svc.certificate] {
			continue
		}
		seen[svc.certificate] = true
		if _, err := svc.certificate.get(); err != nil {
			return errors.Join(err, s.close())
		}
		certificates = append(certificates, svc.certificate)
	}
	group, ctx := lifecycle.NewGroup(ctx)
	for _, c := range certificates {
		group.Go("renewal of a certificate", func() error {
			c.run(ctx)
			return nil
		})
	}
	for _, svc := range s.services {
		var listeners []net.Listener
		for _, l := range svc.Listeners {
			listeners = append(listeners, newListener(l))
		}
		if svc.handoff != nil {
			listeners = append(listeners, svc.handoff)
		}
		group.Go(fmt.Sprintf("port %d", svc.Port), func() error {
			if err := svc.server.Serve(ctx, listeners...); err != nil {
				return fmt.Errorf("port %d: %w", svc.Port, err)
			}
			return nil
		})
	}
	if len(s.config.Inbound) > 0 {
		group.Go("direct path", func() error { return s.direct.run(ctx, s.config.Inbound) })
	}
	ready()
	if err := group.Wait(); err != nil {
		return fmt.Errorf("proxy shim: %w", err)
	}
	return nil
}

// close closes all listeners.
func (s *Shim) close() error {
	var errs []error
	for _, svc := range s.services {
		for _, l := range svc.Listeners {
			errs = append(errs, l.Close())
		}
	}
	for _, l := range s.config.Inbound {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// refused counts and logs a connection that is not served, and returns why.
func (s *Shim) refused(port uint16, c net.Conn, err error) error {
	r := refusalOf(err, reasonTLS)
	if errors.Is(err, net.ErrClosed) {
		return r // closed from this side, by a stop
	}
	s.metrics.connErrors.WithLabelValues(string(r.reason), strconv.Itoa(int(port))).Inc()
	if s.logs.Allow() {
		s.config.Log.Warn("connection refused", "port", port, "client", c.RemoteAddr().String(), "reason", string(r.reason), "detail", r.detail)
	}
	return r
}
