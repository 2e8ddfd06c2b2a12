package verdict

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/opaque_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

var (
	errNoRoute   = errors.New("a route without metadata")
	errNoBackend = errors.New("a rule without backends")
	errFilter    = errors.New("a filter without a kind")
)

// httpRules reads the routes of HTTP/1 or HTTP/2.
func httpRules(in interface {
	GetRoutes() []*outbound.HttpRoute
	GetFailureAccrual() *outbound.FailureAccrual
}) (*HTTP, error) {
	table := &Table[*Rule]{}
	for _, route := range in.GetRoutes() {
		to := tableRoute[*Rule]{hosts: route.GetHosts()}
		for _, r := range route.GetRules() {
			rule := newRule(route.GetMetadata(), r.GetTimeouts())
			rule.Retry = httpRetry(r.GetRetry())
			var errs [2]error
			rule.Filters, errs[0] = httpFilters(r.GetFilters())
			rule.Backends, errs[1] = httpDistribution(r.GetBackends())
			if err := errors.Join(errs[:]...); err != nil || route.GetMetadata().GetKind() == nil {
				return nil, errors.Join(err, errNoRoute)
			}
			to.rules = append(to.rules, tableRule[*Rule]{httpMatchers(r.GetMatches()), rule})
		}
		table.routes = append(table.routes, to)
	}
	return &HTTP{Routes: table, Accrual: in.GetFailureAccrual()}, nil
}

// grpcRules reads the routes of gRPC.
func grpcRules(in *outbound.ProxyProtocol_Grpc) (*HTTP, error) {
	table := &Table[*Rule]{}
	for _, route := range in.GetRoutes() {
		to := tableRoute[*Rule]{hosts: route.GetHosts()}
		for _, r := range route.GetRules() {
			rule := newRule(route.GetMetadata(), r.GetTimeouts())
			rule.Retry = grpcRetry(r.GetRetry())
			var errs [2]error
			rule.Filters, errs[0] = grpcFilters(r.GetFilters())
			rule.Backends, errs[1] = grpcDistribution(r.GetBackends())
			if err := errors.Join(errs[:]...); err != nil || route.GetMetadata().GetKind() == nil {
				return nil, errors.Join(err, errNoRoute)
			}
			to.rules = append(to.rules, tableRule[*Rule]{grpcMatchers(r.GetMatches()), rule})
		}
		table.routes = append(table.routes, to)
	}
	return &HTTP{Routes: table, Accrual: in.GetFailureAccrual()}, nil
}

func newRule(of *meta.Metadata, t *http_route.Timeouts) *Rule {
	return &Rule{Route: of, Request: duration(t.GetRequest()), Response: duration(t.GetResponse()), Idle: duration(t.GetIdle())}
}

// duration is zero for one that is not there.
func duration(d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.AsDuration()
}

func httpFilters(in []*outbound.HttpRoute_Filter) (out []Filter, err error) {
	for _, f := range in {
		switch kind := f.GetKind().(type) {
		case *outbound.HttpRoute_Filter_FailureInjector:
			out = append(out, Filter{Failure: httpFailure(kind.FailureInjector)})
		case *outbound.HttpRoute_Filter_RequestHeaderModifier:
			out = append(out, Filter{Request: kind.RequestHeaderModifier})
		case *outbound.HttpRoute_Filter_ResponseHeaderModifier:
			out = append(out, Filter{Response: kind.ResponseHeaderModifier})
		case *outbound.HttpRoute_Filter_Redirect:
			out = append(out, Filter{Redirect: kind.Redirect})
		default:
			return nil, errFilter
		}
	}
	return out, nil
}

func httpFailure(f *http_route.HttpFailureInjector) *Failure {
	return &Failure{Status: int(f.GetStatus()), Message: f.GetMessage(), Ratio: f.GetRatio()}
}

func grpcFilters(in []*outbound.GrpcRoute_Filter) (out []Filter, err error) {
	for _, f := range in {
		switch kind := f.GetKind().(type) {
		case *outbound.GrpcRoute_Filter_FailureInjector:
			in := kind.FailureInjector
			out = append(out, Filter{Failure: &Failure{Code: codes.Code(in.GetCode()), Message: in.GetMessage(), Ratio: in.GetRatio()}})
		case *outbound.GrpcRoute_Filter_RequestHeaderModifier:
			out = append(out, Filter{Request: kind.RequestHeaderModifier})
		default:
			return nil, errFilter
		}
	}
	return out, nil
}

// routeBackend, weightedBackend and opaqueFilter are what the messages of the
// kinds of routes have in common.
type (
	routeBackend[F any] interface {
		comparable
		GetBackend() *outbound.Backend
		GetFilters() []F
	}
	weightedBackend[B any] interface {
		GetBackend() B
		GetWeight() uint32
	}
	opaqueFilter interface {
		comparable
		GetInvalid() *opaque_route.Invalid
		GetForbidden() *opaque_route.Forbidden
	}
)

// distribute reads backends; finish adds their filters.
func distribute[F any, B routeBackend[F], W weightedBackend[B]](first []B, random []W, isEmpty bool, finish func(*Backend, []F) error) (Distribution, error) {
	d := Distribution{Random: len(random) > 0}
	if !isEmpty && len(first) == 0 && len(random) == 0 {
		return d, errNoBackend
	}
	add := func(from B, weight uint32) error {
		b, err := newBackend(from.GetBackend(), weight)
		if err != nil {
			return err
		}
		d.Backends = append(d.Backends, b)
		return finish(b, from.GetFilters())
	}
	for _, b := range first {
		if err := add(b, 1); err != nil {
			return d, err
		}
	}
	for _, w := range random {
		if err := add(w.GetBackend(), w.GetWeight()); err != nil {
			return d, err
		}
	}
	return d, nil
}

func httpDistribution(d *outbound.HttpRoute_Distribution) (Distribution, error) {
	return distribute(d.GetFirstAvailable().GetBackends(), d.GetRandomAvailable().GetBackends(), d.GetEmpty() != nil, func(b *Backend, in []*outbound.HttpRoute_Filter) (err error) {
		b.Filters, err = httpFilters(in)
		return err
	})
}

func grpcDistribution(d *outbound.GrpcRoute_Distribution) (Distribution, error) {
	return distribute(d.GetFirstAvailable().GetBackends(), d.GetRandomAvailable().GetBackends(), d.GetEmpty() != nil, func(b *Backend, in []*outbound.GrpcRoute_Filter) (err error) {
		b.Filters, err = grpcFilters(in)
		return err
	})
}

// newBackend reads where a backend is.
func newBackend(in *outbound.Backend, weight uint32) (*Backend, error) {
	if in.GetMetadata().GetKind() == nil || in.GetQueue().GetFailfastTimeout() == nil {
		return nil, errors.New("a backend without metadata or queue")
	}
	b := &Backend{Meta: in.GetMetadata(), Weight: weight, FailFast: in.GetQueue().GetFailfastTimeout().AsDuration()}
	switch kind := in.GetKind().(type) {
	case *outbound.Backend_Forward:
		if kind.Forward.GetAddr().GetIp() == nil {
			return nil, errors.New("a backend to forward to without an address")
		}
		b.Forward = kind.Forward
	case *outbound.Backend_Balancer:
		b.Path = kind.Balancer.GetDiscovery().GetDst().GetPath()
		switch load := kind.Balancer.GetLoad().(type) {
		case *outbound.Backend_BalanceP2C_PeakEwma_:
			b.Load = Load{DefaultRTT: duration(load.PeakEwma.GetDefaultRtt()), Decay: duration(load.PeakEwma.GetDecay())}
		case *outbound.Backend_BalanceP2C_PenaltyPeakEwma_:
			b.Load = Load{DefaultRTT: defaultRTT, Decay: defaultDecay, Penalty: defaultPenalty}
			for to, from := range map[*time.Duration]*durationpb.Duration{
				&b.Load.DefaultRTT: load.PenaltyPeakEwma.GetDefaultRtt(), &b.Load.Decay: load.PenaltyPeakEwma.GetDecay(), &b.Load.Penalty: load.PenaltyPeakEwma.GetPenalty(),
			} {
				if from != nil {
					*to = from.AsDuration()
				}
			}
		default:
			return nil, errors.New("a balancer without a load")
		}
		if b.Path == "" {
			return nil, errors.New("a balancer without a path")
		}
	}
	return b, nil
}

// opaqueRule reads the one route of bytes; nil if there is none.
func opaqueRule(in *outbound.ProxyProtocol_Opaque) (*Rule, error) {
	routes := in.GetRoutes()
	if len(routes) == 0 {
		return nil, nil
	}
	if len(routes) > 1 || len(routes[0].GetRules()) != 1 {
		return nil, fmt.Errorf("%d opaque routes, want one with one rule", len(routes))
	}
	r := routes[0].GetRules()[0]
	backends, err := distribute(r.GetBackends().GetFirstAvailable().GetBackends(), r.GetBackends().GetRandomAvailable().GetBackends(), r.GetBackends().GetEmpty() != nil, refuseBackend[*outbound.OpaqueRoute_Filter])
	return &Rule{Route: routes[0].GetMetadata(), Backends: backends, Refused: refusedBy(r.GetFilters())}, err
}

func refuseBackend[F opaqueFilter](b *Backend, filters []F) error {
	b.Refused = refusedBy(filters)
	return nil
}

// refusedBy is why filters let no connection pass, or empty.
func refusedBy[F opaqueFilter](filters []F) string {
	for _, f := range filters {
		if f.GetForbidden() != nil {
			return "forbidden by policy"
		}
		if invalid := f.GetInvalid(); invalid != nil {
			return invalid.GetMessage()
		}
	}
	return ""
}

// TLSRoute is a rule for connections by TLS to some names.
type TLSRoute struct {
	hosts []*http_route.HostMatch
	Rule  *Rule
}

func tlsRoutes(in []*outbound.TlsRoute) (out []TLSRoute, err error) {
	for _, route := range in {
		if len(route.GetRules()) != 1 {
			return nil, errors.New("a TLS route without exactly one rule")
		}
		r := route.GetRules()[0]
		rule := &Rule{Route: route.GetMetadata(), Refused: refusedBy(r.GetFilters())}
		rule.Backends, err = distribute(r.GetBackends().GetFirstAvailable().GetBackends(), r.GetBackends().GetRandomAvailable().GetBackends(), r.GetBackends().GetEmpty() != nil, refuseBackend[*outbound.TlsRoute_Filter])
		if err != nil {
			return nil, err
		}
		to := TLSRoute{Rule: rule}
		for _, sni := range route.GetSnis() {
			// Names of TLS and of HTTP match alike.
			if suffix := sni.GetSuffix(); suffix != nil {
				to.hosts = append(to.hosts, &http_route.HostMatch{Match: &http_route.HostMatch_Suffix_{Suffix: &http_route.HostMatch_Suffix{ReverseLabels: suffix.GetReverseLabels()}}})
			} else {
				to.hosts = append(to.hosts, &http_route.HostMatch{Match: &http_route.HostMatch_Exact{Exact: sni.GetExact()}})
			}
		}
		out = append(out, to)
	}
	return out, nil
}

// FindTLS returns the rule for a server name: that of the most specific match,
// and of equals the first.
func (p *Plan) FindTLS(serverName string) *Rule {
	var rule *Rule
	var best Match
	for _, route := range p.TLS {
		host, ok := bestHost(route.hosts, serverName)
		if m := (Match{host: host}); ok && (rule == nil || m.beats(best)) {
			rule, best = route.Rule, m
		}
	}
	return rule
}
