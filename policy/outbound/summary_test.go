package outbound

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/test/compact"
)

// summary writes a policy for people: the parent and the protocol, then each
// route with its rules. What is the same in every sound policy (queues, default
// latencies, the detect timeout) is checked and left out; what is not sound is
// said at the end.
func summary(m *pb.OutboundPolicy) string {
	s := &summarizer{}
	s.policy(m)
	for _, problem := range s.problems {
		s.linef("unsound: %s", problem)
	}
	return strings.TrimSuffix(s.text.String(), "\n")
}

type summarizer struct {
	text     strings.Builder
	problems []string
}

func (s *summarizer) linef(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

func (s *summarizer) check(holds bool, problem string) {
	if !holds {
		s.problems = append(s.problems, problem)
	}
}

func (s *summarizer) policy(m *pb.OutboundPolicy) {
	parent := s.metadata(m.GetMetadata())
	switch p := m.GetProtocol().GetKind().(type) {
	case *pb.ProxyProtocol_Detect_:
		s.linef("%s detect%s", parent, s.accrual(p.Detect.GetHttp1().GetFailureAccrual()))
		s.check(p.Detect.GetTimeout().AsDuration() == 10*time.Second, "detect timeout")
		s.check(p.Detect.Opaque != nil && p.Detect.Http1 != nil && p.Detect.Http2 != nil, "detect lacks a protocol")
		s.check(proto.Equal(&pb.ProxyProtocol_Http1{Routes: p.Detect.GetHttp2().GetRoutes(), FailureAccrual: p.Detect.GetHttp2().GetFailureAccrual()}, p.Detect.Http1), "http1 and http2 differ")
		s.opaque(p.Detect.GetOpaque().GetRoutes())
		for _, r := range p.Detect.GetOpaque().GetRoutes() {
			s.check(r.GetMetadata().GetDefault() != "", "a detected protocol's opaque route is not the default one")
		}
		s.http(p.Detect.GetHttp1().GetRoutes())
	case *pb.ProxyProtocol_Opaque_:
		s.linef("%s opaque", parent)
		s.opaque(p.Opaque.GetRoutes())
	case *pb.ProxyProtocol_Http1_:
		s.linef("%s http1%s", parent, s.accrual(p.Http1.GetFailureAccrual()))
		s.http(p.Http1.GetRoutes())
	case *pb.ProxyProtocol_Http2_:
		s.linef("%s http2%s", parent, s.accrual(p.Http2.GetFailureAccrual()))
		s.http(p.Http2.GetRoutes())
	case *pb.ProxyProtocol_Grpc_:
		s.linef("%s grpc%s", parent, s.accrual(p.Grpc.GetFailureAccrual()))
		s.grpc(p.Grpc.GetRoutes())
	case *pb.ProxyProtocol_Tls_:
		s.linef("%s tls", parent)
		s.tls(p.Tls.GetRoutes())
	default:
		s.linef("%s", parent)
		s.check(false, "no protocol")
	}
}

func (s *summarizer) accrual(a *pb.FailureAccrual) string {
	if a == nil {
		return ""
	}
	s.check(a.GetKind() != nil && a.GetEjection() == nil, "failure accrual")
	s.check(a.GetConsecutiveFailures() == nil || a.GetConsecutiveFailures().GetBackoff() != nil, "accrual without backoff")
	if u := a.GetUnified(); u != nil {
		s.check(u.GetBackoff() != nil, "accrual without backoff")
		s.check(u.SuccessRateThreshold == 0 || u.Decay.AsDuration() >= 10*time.Millisecond && u.MinRequests <= 1_000_000, "unified accrual out of bounds")
	}
	return " " + compactText(a)
}

func (s *summarizer) http(routes []*pb.HttpRoute) {
	for _, r := range routes {
		s.linef("http %s%s", s.metadata(r.GetMetadata()), list(" hosts ", r.GetHosts()))
		for _, rule := range r.GetRules() {
			text := rulePrefix(rule.GetMatches()) + list(" filters ", rule.GetFilters())
			for _, f := range rule.GetFilters() {
				s.check(f.GetKind() != nil, "filter without kind")
			}
			if t := compactText(rule.GetTimeouts()); t != "" {
				text += " timeouts " + t
			}
			//lint:ignore SA1019 still sent, for proxies that know no other
			s.check(proto.Equal(rule.GetRequestTimeout(), rule.GetTimeouts().GetRequest()), "requestTimeout")
			if rule.GetRetry() != nil {
				text += " retry " + compactText(rule.GetRetry())
				s.check(rule.GetRetry().GetConditions() != nil, "retry without conditions")
				s.retry(rule.GetRetry().GetMaxRequestBytes(), rule.GetRetry().GetBackoff())
			}
			if rule.GetAllowL5DRequestHeaders() {
				text += " l5d"
			}
			backends := rule.GetBackends()
			s.linef("%s -> %s", text, distributionText(s, backends.GetEmpty() != nil, backends.GetFirstAvailable().GetBackends(), backends.GetRandomAvailable().GetBackends()))
		}
	}
}

func (s *summarizer) grpc(routes []*pb.GrpcRoute) {
	for _, r := range routes {
		s.linef("grpc %s%s", s.metadata(r.GetMetadata()), list(" hosts ", r.GetHosts()))
		for _, rule := range r.GetRules() {
			text := rulePrefix(rule.GetMatches()) + list(" filters ", rule.GetFilters())
			for _, f := range rule.GetFilters() {
				s.check(f.GetKind() != nil, "filter without kind")
			}
			for _, m := range rule.GetMatches() {
				s.check(m.GetRpc() != nil, "gRPC match without rpc")
			}
			if t := compactText(rule.GetTimeouts()); t != "" {
				text += " timeouts " + t
			}
			s.check(rule.GetTimeouts() != nil, "no timeouts")
			//lint:ignore SA1019 still sent, for proxies that know no other
			s.check(proto.Equal(rule.GetRequestTimeout(), rule.GetTimeouts().GetRequest()), "requestTimeout")
			if rule.GetRetry() != nil {
				text += " retry " + compactText(rule.GetRetry())
				s.check(rule.GetRetry().GetConditions() != nil, "retry without conditions")
				s.retry(rule.GetRetry().GetMaxRequestBytes(), rule.GetRetry().GetBackoff())
			}
			if rule.GetAllowL5DRequestHeaders() {
				text += " l5d"
			}
			backends := rule.GetBackends()
			s.linef("%s -> %s", text, distributionText(s, backends.GetEmpty() != nil, backends.GetFirstAvailable().GetBackends(), backends.GetRandomAvailable().GetBackends()))
		}
	}
}

func (s *summarizer) retry(maxBytes uint32, backoff *pb.ExponentialBackoff) {
	s.check(maxBytes == 65536, "retry bytes")
	s.check(compactText(backoff) == "min_backoff:25ms max_backoff:250ms jitter_ratio:1", "retry backoff "+compactText(backoff))
}

func (s *summarizer) opaque(routes []*pb.OpaqueRoute) {
	s.check(len(routes) == 1, "not one opaque route")
	for _, r := range routes {
		s.check(len(r.GetRules()) == 1, "not one rule")
		s.linef("opaque %s", s.metadata(r.GetMetadata()))
		s.check(r.GetMetadata().GetResource() == nil || r.GetMetadata().GetResource().GetKind() == "TCPRoute", "an opaque route without the name of a default one is no TCPRoute")
		for _, rule := range r.GetRules() {
			backends := rule.GetBackends()
			s.linef(" %s -> %s", list(" filters ", rule.GetFilters()), distributionText(s, backends.GetEmpty() != nil, backends.GetFirstAvailable().GetBackends(), backends.GetRandomAvailable().GetBackends()))
		}
	}
}

func (s *summarizer) tls(routes []*pb.TlsRoute) {
	for _, r := range routes {
		s.check(len(r.GetRules()) == 1, "not one rule")
		s.linef("tls %s%s", s.metadata(r.GetMetadata()), list(" snis ", r.GetSnis()))
		for _, rule := range r.GetRules() {
			backends := rule.GetBackends()
			s.linef(" %s -> %s", list(" filters ", rule.GetFilters()), distributionText(s, backends.GetEmpty() != nil, backends.GetFirstAvailable().GetBackends(), backends.GetRandomAvailable().GetBackends()))
		}
	}
}

func rulePrefix[M proto.Message](matches []M) string {
	var texts []string
	for _, m := range matches {
		texts = append(texts, "("+compactText(m)+")")
	}
	return " " + list(" ", texts)
}

type routeBackend[F proto.Message] interface {
	GetBackend() *pb.Backend
	GetFilters() []F
}

type weightedBackend[B any] interface {
	GetBackend() B
	GetWeight() uint32
}

func distributionText[F proto.Message, B routeBackend[F], W weightedBackend[B]](s *summarizer, empty bool, first []B, random []W) string {
	var texts []string
	for _, b := range first {
		texts = append(texts, s.backend(b.GetBackend())+list(" filters ", b.GetFilters()))
	}
	for _, b := range random {
		texts = append(texts, fmt.Sprintf("%d x %s%s", b.GetWeight(), s.backend(b.GetBackend().GetBackend()), list(" filters ", b.GetBackend().GetFilters())))
	}
	switch {
	case empty:
		return "nothing"
	case len(first) > 0:
		return "first " + strings.Join(texts, ", ")
	case len(random) > 0:
		return "random " + strings.Join(texts, ", ")
	}
	s.check(false, "distribution without backends")
	return "?"
}

func (s *summarizer) metadata(m *meta.Metadata) string {
	switch kind := m.GetKind().(type) {
	case *meta.Metadata_Default:
		s.check(kind.Default != "", "default metadata without name")
		return kind.Default
	case *meta.Metadata_Resource:
		r := kind.Resource
		s.check(r.GetGroup() != "" && r.GetKind() != "" && r.GetNamespace() != "" && r.GetName() != "" && r.GetSection() == "", "incomplete metadata")
		text := r.GetGroup() + "/" + r.GetKind() + " "
		if r.GetGroup() == "core" || r.GetKind() == "EgressNetwork" && r.GetGroup() == "policy.linkerd.io" {
			text = r.GetKind() + " "
		}
		text += r.GetNamespace() + "/" + r.GetName()
		if r.GetPort() != 0 {
			text += fmt.Sprint(":", r.GetPort())
		}
		return text
	}
	s.check(false, "no metadata")
	return "?"
}

func (s *summarizer) backend(b *pb.Backend) string {
	s.check(compactText(b.GetQueue()) == "capacity:100 failfast_timeout:3s", "queue "+compactText(b.GetQueue()))
	text := s.metadata(b.GetMetadata())
	switch kind := b.GetKind().(type) {
	case *pb.Backend_Forward:
		text += " at " + addrText(kind.Forward.GetAddr())
		if kind.Forward.GetWeight() != 1 {
			text += fmt.Sprint(" weight ", kind.Forward.GetWeight())
		}
	case *pb.Backend_Balancer:
		r := b.GetMetadata().GetResource()
		path := kind.Balancer.GetDiscovery().GetDst().GetPath()
		s.check(path == fmt.Sprintf("%s.%s.svc.cluster.local:%d", r.GetName(), r.GetNamespace(), r.GetPort()), "path "+path)
		switch load := kind.Balancer.GetLoad().(type) {
		case *pb.Backend_BalanceP2C_PeakEwma_:
			s.check(compactText(load.PeakEwma) == "default_rtt:30ms decay:10s", "load "+compactText(load.PeakEwma))
		case *pb.Backend_BalanceP2C_PenaltyPeakEwma_:
			text += " " + strings.NewReplacer("default_rtt:30ms decay:10s ", "", " penalty_decay:10s", "").Replace(compactText(load.PenaltyPeakEwma))
		default:
			s.check(false, "balancer without load")
		}
	default:
		text += " invalid"
	}
	return text
}

func addrText(a *net.TcpAddress) string {
	return a.AddrPort().String()
}

func list[M any](before string, items []M) string {
	if len(items) == 0 {
		return ""
	}
	var texts []string
	for _, item := range items {
		if m, ok := any(item).(proto.Message); ok {
			texts = append(texts, compactText(m))
		} else {
			texts = append(texts, fmt.Sprint(item))
		}
	}
	return before + strings.Join(texts, "; ")
}

// compactText writes a message on one line, but for what all retries have.
func compactText(m proto.Message) string {
	return compact.Text(m, func(field protoreflect.FieldDescriptor) bool {
		return field.Name() == "max_request_bytes" || field.Name() == "backoff" && strings.HasSuffix(string(field.Parent().FullName()), "Retry")
	})
}
