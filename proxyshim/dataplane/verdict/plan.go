package verdict

import (
	"errors"
	"net/netip"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Protocol is how connections to a destination are taken.
type Protocol int

// The protocols of policies. With Detect the first bytes decide.
const (
	Detect Protocol = iota
	HTTP1
	HTTP2
	GRPC
	TLS
	Opaque
)

// String is the label of metrics.
func (p Protocol) String() string {
	return [...]string{"detect", "http/1", "http/2", "grpc", "tls", "opaq"}[p]
}

// detectTimeout is used where no message says another.
const detectTimeout = 10 * time.Second

// Plan is what a client's proxy does with connections to one destination.
// Immutable.
type Plan struct {
	Protocol      Protocol
	DetectTimeout time.Duration
	Parent        *meta.Metadata
	// HTTP1 and HTTP2 have the rules of requests in connections of these
	// versions; gRPC's are in HTTP2.
	HTTP1, HTTP2 *HTTP
	// Opaque is nil if there is no route: connections are refused.
	Opaque *Rule
	TLS    []TLSRoute
	// Canonical is the name and port of the ServiceProfile in force, or empty.
	Canonical string
	// Invalid says what is wrong with the policy: then nothing passes.
	Invalid string
}

// HTTP is the rules of HTTP requests.
type HTTP struct {
	Routes  *Table[*Rule]
	Accrual *outbound.FailureAccrual
}

// Rule is what is done with a request or a connection.
type Rule struct {
	Route    *meta.Metadata
	Filters  []Filter
	Backends Distribution
	// Refused is not empty if connections are refused, and says why.
	Refused string
	// Request, Response and Idle bound a request's time; zero is no bound. The
	// first runs from the begin of the request, the second from its end.
	Request, Response, Idle time.Duration
	// Retry is nil if nothing is sent twice.
	Retry *Retry
	// Labels are those of a ServiceProfile's route, which the rule then is of.
	Labels map[string]string
}

// Distribution is how requests are spread.
type Distribution struct {
	// Random is by weight among the available; else the first available is taken.
	Random   bool
	Backends []*Backend
}

// Backend is where requests go.
type Backend struct {
	Meta *meta.Metadata
	// Weight counts in random distributions.
	Weight  uint32
	Filters []Filter
	// Refused is as a rule's.
	Refused string
	// Forward is the one endpoint, Path the authority whose endpoints are
	// balanced over; with neither nothing can be sent.
	Forward *destination.WeightedAddr
	Path    string
	Load    Load
	// FailFast is how long a request waits for an available endpoint.
	FailFast time.Duration
}

// Load is how endpoints are compared.
type Load struct {
	DefaultRTT, Decay time.Duration
	// Penalty is the latency that a failure counts as; zero is none.
	Penalty time.Duration
}

// The values of the control plane's own messages, for what proxies make up.
const (
	defaultRTT      = 30 * time.Millisecond
	defaultDecay    = 10 * time.Second
	defaultPenalty  = 5 * time.Second
	defaultFailFast = 3 * time.Second
)

// Sources is what the control plane has said of a destination.
type Sources struct {
	// Policy is nil if policy does not know the destination.
	Policy *outbound.OutboundPolicy
	// Profile is nil if there is none.
	Profile *destination.DestinationProfile
	// Original is the address that the client wants.
	Original netip.AddrPort
}

// NewPlan puts the sources together: a profile can make the protocol opaque;
// one with a name and routes or overrides comes before the policy's HTTP
// routes, one with overrides before its routes of bytes. Without a policy the
// profile's endpoint or the original address is all there is.
func NewPlan(s Sources) *Plan {
	p, err := s.policy()
	if err != nil {
		return &Plan{Protocol: Opaque, Invalid: err.Error(), Parent: s.Policy.GetMetadata()}
	}
	name := s.profileName()
	if overrides := s.overrides(name); overrides != nil {
		p.Opaque = &Rule{Route: defaultMeta("profile"), Backends: *overrides}
	}
	if s.Profile.GetOpaqueProtocol() {
		p.Protocol = Opaque
		if p.Opaque == nil {
			p.Opaque = &Rule{Route: defaultMeta("profile"), Backends: single(s.otherwise(name))}
		}
		return p
	}
	if name != "" && (len(s.Profile.GetRoutes()) > 0 || len(s.Profile.GetDstOverrides()) > 0) {
		p.Canonical = name
		for _, http := range []**HTTP{&p.HTTP1, &p.HTTP2} {
			if *http != nil {
				*http = &HTTP{Routes: s.profileTable(name), Accrual: (*http).Accrual}
			}
		}
	}
	return p
}

// Backends are all that a plan can send to.
func (p *Plan) Backends(each func(*Backend, *outbound.FailureAccrual)) {
	rule := func(r *Rule, accrual *outbound.FailureAccrual) {
		for _, b := range r.Backends.Backends {
			each(b, accrual)
		}
	}
	for _, http := range []*HTTP{p.HTTP1, p.HTTP2} {
		if http == nil {
			continue
		}
		for _, route := range http.Routes.routes {
			for _, r := range route.rules {
				rule(r.policy, http.Accrual)
			}
		}
	}
	if p.Opaque != nil {
		rule(p.Opaque, nil)
	}
	for _, r := range p.TLS {
		rule(r.Rule, nil)
	}
}

// policy is the plan without regard to the profile.
func (s Sources) policy() (*Plan, error) {
	p := &Plan{DetectTimeout: detectTimeout, Parent: s.Policy.GetMetadata()}
	if s.Policy == nil {
		rule := &Rule{Route: defaultMeta("default"), Backends: single(s.forward())}
		all := &HTTP{Routes: &Table[*Rule]{[]tableRoute[*Rule]{{rules: []tableRule[*Rule]{{everything(rank{1}, 1), rule}}}}}}
		p.Parent, p.Opaque, p.HTTP1, p.HTTP2 = defaultMeta("endpoint"), rule, all, all
		return p, nil
	}
	if p.Parent.GetKind() == nil {
		return nil, errors.New("policy without metadata")
	}
	var err error
	switch kind := s.Policy.GetProtocol().GetKind().(type) {
	case *outbound.ProxyProtocol_Detect_:
		if kind.Detect.GetHttp1() == nil || kind.Detect.GetHttp2() == nil || kind.Detect.GetOpaque() == nil {
			return nil, errors.New("detection without routes for all protocols")
		}
		p.DetectTimeout = kind.Detect.GetTimeout().AsDuration()
		var errs [3]error
		p.HTTP1, errs[0] = httpRules(kind.Detect.GetHttp1())
		p.HTTP2, errs[1] = httpRules(kind.Detect.GetHttp2())
		p.Opaque, errs[2] = opaqueRule(kind.Detect.GetOpaque())
		err = errors.Join(errs[:]...)
	case *outbound.ProxyProtocol_Http1_:
		p.Protocol = HTTP1
		p.HTTP1, err = httpRules(kind.Http1)
		p.HTTP2 = p.HTTP1
	case *outbound.ProxyProtocol_Http2_:
		p.Protocol = HTTP2
		p.HTTP2, err = httpRules(kind.Http2)
		p.HTTP1 = p.HTTP2
	case *outbound.ProxyProtocol_Grpc_:
		p.Protocol = GRPC
		p.HTTP2, err = grpcRules(kind.Grpc)
		p.HTTP1 = p.HTTP2
	case *outbound.ProxyProtocol_Tls_:
		p.Protocol = TLS
		p.TLS, err = tlsRoutes(kind.Tls.GetRoutes())
	case *outbound.ProxyProtocol_Opaque_:
		p.Protocol = Opaque
		p.Opaque, err = opaqueRule(kind.Opaque)
	default:
		err = errors.New("policy without a protocol")
	}
	return p, err
}

// forward is the endpoint of the profile, or the original address.
func (s Sources) forward() *Backend {
	endpoint := s.Profile.GetEndpoint()
	if endpoint.GetAddr().GetIp() == nil {
		endpoint = &destination.WeightedAddr{Addr: netpb.NewTcpAddress(s.Original)}
	}
	return &Backend{Meta: defaultMeta("endpoint"), Forward: endpoint, FailFast: defaultFailFast}
}

// otherwise is where connections go that no route of bytes is for.
func (s Sources) otherwise(name string) *Backend {
	if name == "" {
		return s.forward()
	}
	return balanced(name, defaultMeta("service"))
}

// balanced is a backend of which only the name is known.
func balanced(path string, of *meta.Metadata) *Backend {
	return &Backend{Meta: of, Weight: 1, Path: path, FailFast: defaultFailFast, Load: Load{DefaultRTT: defaultRTT, Decay: defaultDecay}}
}

func single(b *Backend) Distribution {
	b.Weight = 1
	return Distribution{Backends: []*Backend{b}}
}

func defaultMeta(name string) *meta.Metadata {
	return &meta.Metadata{Kind: &meta.Metadata_Default{Default: name}}
}

// Choose draws a backend: the first that is available, or one of the available
// by weight. If none is, all count as available. It returns nil if there is
// none with a weight. Draw returns a number in [0, n).
func (d Distribution) Choose(available func(*Backend) bool, draw func(n uint64) uint64) *Backend {
	var among []*Backend
	for _, b := range d.Backends {
		if available(b) && b.Weight > 0 {
			among = append(among, b)
		}
	}
	if len(among) == 0 {
		among = d.Backends
	}
	if !d.Random {
		if len(among) == 0 {
			return nil
		}
		return among[0]
	}
	var total uint64
	for _, b := range among {
		total += uint64(b.Weight)
	}
	if total == 0 {
		return nil
	}
	at := draw(total)
	for _, b := range among {
		if at < uint64(b.Weight) {
			return b
		}
		at -= uint64(b.Weight)
	}
	return nil
}
