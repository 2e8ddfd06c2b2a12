package dns

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

const (
	// maxDatagram is the largest answer by UDP: greater ones come in fragments
	// on many networks.
	maxDatagram = 1232
	// stopTimeout is how long questions that are being answered may hold up the end.
	stopTimeout = time.Second
)

// Source has the objects that names are made of.
type Source interface{ Snapshot() state.Snapshot }

// Config is what a Server needs.
type Config struct {
	Source Source
	// ClusterDomain is the domain that is answered for, such as cluster.local.
	ClusterDomain string
	// Upstream is the resolv.conf that names who is asked for all else. It is read
	// again when it has changed. Empty: nobody.
	Upstream string
	// Log gets, at debug level, what nobody answered.
	Log *slog.Logger
}

// Server answers DNS.
type Server struct {
	source   Source
	domain   string
	upstream *upstream
	log      *slog.Logger
}

// New prepares a server; it does no I/O.
func New(config Config) (*Server, error) {
	if _, ok := mdns.IsDomainName(config.ClusterDomain); !ok || mdns.CountLabel(config.ClusterDomain) == 0 {
		return nil, fmt.Errorf("cluster domain %q is no name", config.ClusterDomain)
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		source: config.Source, domain: mdns.CanonicalName(config.ClusterDomain), log: config.Log,
		upstream: newUpstream(config.Upstream),
	}, nil
}

// Serve answers at the sockets, which it owns, until ctx ends or a socket fails.
// It may be called for several pairs of them.
func (s *Server) Serve(ctx context.Context, packets net.PacketConn, listener net.Listener) error {
	group, ctx := lifecycle.NewGroup(ctx)
	for _, server := range []*mdns.Server{
		{PacketConn: packets, Handler: handler{s, ctx, "udp"}},
		{Listener: listener, Handler: handler{s, ctx, "tcp"}},
	} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		group.Go("DNS", func() error {
			err := server.ActivateAndServe()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serving DNS ended: %w", err)
		})
		group.Go("end of DNS", func() error {
			<-ctx.Done()
			select {
			case <-started:
				stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
				defer cancel()
				// The socket is closed in any case.
				_ = server.ShutdownContext(stopping)
			default:
			}
			if server.PacketConn != nil {
				server.PacketConn.Close()
			} else {
				server.Listener.Close()
			}
			return nil
		})
	}
	return group.Wait()
}

// handler answers at one socket.
type handler struct {
	*Server
	ctx     context.Context
	network string
}

// ServeDNS answers a message, which has one question.
func (h handler) ServeDNS(w mdns.ResponseWriter, request *mdns.Msg) {
	reply := h.reply(h.ctx, request, h.network)
	size := mdns.MaxMsgSize
	if h.network == "udp" {
		size = mdns.MinMsgSize
		if options := request.IsEdns0(); options != nil {
			size = max(size, min(int(options.UDPSize()), maxDatagram))
		}
	}
	reply.Truncate(size)
	if err := w.WriteMsg(reply); err != nil {
		h.log.Debug("answer not sent", "question", request.Question[0].String(), "error", err)
	}
}

// reply answers a message that came by a network.
func (s *Server) reply(ctx context.Context, request *mdns.Msg, network string) *mdns.Msg {
	reply := new(mdns.Msg).SetReply(request)
	reply.RecursionAvailable = true
	if options := request.IsEdns0(); options != nil {
		reply.SetEdns0(maxDatagram, options.Do())
		if options.Version() != 0 {
			reply.Rcode = mdns.RcodeBadVers
			return reply
		}
	}
	q := request.Question[0]
	if q.Qclass != mdns.ClassINET {
		reply.Rcode = mdns.RcodeRefused
		return reply
	}
	z := zone{domain: s.domain, reader: s.source.Snapshot().Reader()}
	own := z.has(q.Name)
	var a answer
	if own {
		a = z.answer(q)
	} else if a, own = z.reverse(q); !own {
		return s.forward(ctx, request, reply, network)
	}
	reply.Authoritative = true
	reply.Rcode, reply.Answer = a.code, a.records
	if a.elsewhere != "" {
		s.follow(ctx, q, a.elsewhere, reply, network)
		return reply
	}
	shuffle(reply.Answer)
	if len(reply.Answer) == 0 || a.code != mdns.RcodeSuccess {
		reply.Ns = []mdns.RR{z.soa()}
	}
	reply.Extra = append(a.extra, reply.Extra...)
	return reply
}

// shuffle has clients that take the first address take each in turn. An alias stays
// before what it is an alias of.
func shuffle(records []mdns.RR) {
	for len(records) > 0 && records[0].Header().Rrtype == mdns.TypeCNAME {
		records = records[1:]
	}
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
}

// forward has others answer; reply is what there is without them.
func (s *Server) forward(ctx context.Context, request, reply *mdns.Msg, network string) *mdns.Msg {
	answered, err := s.upstream.ask(ctx, request, network)
	if err != nil {
		s.log.Debug("nobody answers", "question", request.Question[0].String(), "error", err)
		reply.Rcode = mdns.RcodeServerFailure
		return reply
	}
	return answered
}

// follow adds what others know of the target of an alias.
func (s *Server) follow(ctx context.Context, q mdns.Question, target string, reply *mdns.Msg, network string) {
	request := new(mdns.Msg).SetQuestion(target, q.Qtype)
	request.SetEdns0(maxDatagram, false)
	found := s.forward(ctx, request, new(mdns.Msg), network)
	reply.Authoritative = false
	reply.Rcode, reply.Truncated = found.Rcode, found.Truncated
	reply.Answer = append(reply.Answer, found.Answer...)
	reply.Ns = found.Ns
}
