package diagnostics

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// writeOutboundTable prints a row for each backend of each rule. Where the
// protocol is detected, HTTP/1 and HTTP/2 have the same routes.
func writeOutboundTable(out io.Writer, p *pb.OutboundPolicy) error {
	t := &outboundTable{}
	t.row("PROTOCOL", "ROUTE", "HOSTS", "MATCHES", "BACKEND", "WEIGHT", "SETTINGS")
	protocol := ""
	switch kind := p.GetProtocol().GetKind().(type) {
	case *pb.ProxyProtocol_Detect_:
		protocol = "detected protocol"
		t.accrual(kind.Detect.GetHttp1().GetFailureAccrual())
		t.http("http", kind.Detect.GetHttp1().GetRoutes())
		t.opaque(kind.Detect.GetOpaque().GetRoutes())
	case *pb.ProxyProtocol_Http1_:
		protocol = "HTTP/1"
		t.accrual(kind.Http1.GetFailureAccrual())
		t.http("http1", kind.Http1.GetRoutes())
	case *pb.ProxyProtocol_Http2_:
		protocol = "HTTP/2"
		t.accrual(kind.Http2.GetFailureAccrual())
		t.http("http2", kind.Http2.GetRoutes())
	case *pb.ProxyProtocol_Grpc_:
		protocol = "gRPC"
		t.accrual(kind.Grpc.GetFailureAccrual())
		t.grpc(kind.Grpc.GetRoutes())
	case *pb.ProxyProtocol_Opaque_:
		protocol = "opaque"
		t.opaque(kind.Opaque.GetRoutes())
	case *pb.ProxyProtocol_Tls_:
		protocol = "TLS"
		t.tls(kind.Tls.GetRoutes())
	}
	t.lines = append([]string{fmt.Sprintf("outbound policy for %s, %s", metadataText(p.GetMetadata()), protocol)}, t.lines...)
	return t.write(out)
}

type outboundTable struct{ table }

func (t *outboundTable) accrual(a *pb.FailureAccrual) {
	backoff := func(b *pb.ExponentialBackoff) string {
		text := fmt.Sprintf("back after %s to %s", durationText(b.GetMinBackoff()), durationText(b.GetMaxBackoff()))
		if b.GetRespectRetryAfterHint() {
			text += " or as the server says"
		}
		return text
	}
	switch kind := a.GetKind().(type) {
	case *pb.FailureAccrual_ConsecutiveFailures_:
		t.line("an endpoint is out after %d failures in a row, %s", kind.ConsecutiveFailures.GetMaxFailures(), backoff(kind.ConsecutiveFailures.GetBackoff()))
	case *pb.FailureAccrual_Unified_:
		u := kind.Unified
		t.line("an endpoint is out after %d failures in a row, or when less than %g of at least %d requests in %s succeed, %s",
			u.GetMaxConsecutiveFailures(), u.GetSuccessRateThreshold(), u.GetMinRequests(), durationText(u.GetDecay()), backoff(u.GetBackoff()))
	}
}

// backends adds the rows of one rule.
func (t *outboundTable) backends(protocol, route, hosts, matches string, settings []string, backends []tableBackend) {
	for _, b := range backends {
		weight := ""
		if b.weighted {
			weight = fmt.Sprint(b.weight)
		}
		t.row(protocol, route, hosts, matches, b.name, weight, strings.Join(append(append([]string{}, settings...), b.settings...), "; "))
	}
	if len(backends) == 0 {
		t.row(protocol, route, hosts, matches, "", "", strings.Join(settings, "; "))
	}
}

type tableBackend struct {
	name     string
	weighted bool
	weight   uint32
	settings []string
}

// routeBackend and weightedBackend are what the four kinds of routes call alike.
type routeBackend[F any] interface {
	GetBackend() *pb.Backend
	GetFilters() []F
}

type weightedBackend[B any] interface {
	GetBackend() B
	GetWeight() uint32
}

func tableBackends[F any, B routeBackend[F], W weightedBackend[B]](first []B, random []W, filter func(F) string) []tableBackend {
	var out []tableBackend
	add := func(b B, weighted bool, weight uint32) {
		name, settings := backendText(b.GetBackend())
		out = append(out, tableBackend{name, weighted, weight, append(settings, texts(b.GetFilters(), filter)...)})
	}
	for _, b := range first {
		add(b, false, 0)
	}
	for _, b := range random {
		add(b.GetBackend(), true, b.GetWeight())
	}
	return out
}

func texts[T any](items []T, text func(T) string) []string {
	var out []string
	for _, item := range items {
		out = append(out, text(item))
	}
	return out
}

func backendText(b *pb.Backend) (name string, settings []string) {
	name = metadataText(b.GetMetadata())
	switch kind := b.GetKind().(type) {
	case *pb.Backend_Forward:
		name = addressText(ipText(kind.Forward.GetAddr().GetIp()), kind.Forward.GetAddr().GetPort())
	case *pb.Backend_Balancer:
		if penalty := kind.Balancer.GetPenaltyPeakEwma(); penalty != nil {
			settings = append(settings, "penalty "+durationText(penalty.GetPenalty()))
		}
	}
	return name, settings
}

func (t *outboundTable) http(protocol string, routes []*pb.HttpRoute) {
	for _, r := range routes {
		for _, rule := range r.GetRules() {
			settings := texts(rule.GetFilters(), httpFilterText)
			settings = append(settings, timeoutsText(rule.GetTimeouts())...)
			if retry := rule.GetRetry(); retry != nil {
				settings = append(settings, "retry"+httpConditionsText(retry.GetConditions())+retryText(retry.GetMaxRetries(), retry.GetTimeout()))
			}
			d := rule.GetBackends()
			t.backends(protocol, metadataText(r.GetMetadata()), hostsText(r.GetHosts()), matchesText(rule.GetMatches(), httpMatchText), settings,
				tableBackends(d.GetFirstAvailable().GetBackends(), d.GetRandomAvailable().GetBackends(), httpFilterText))
		}
		if len(r.GetRules()) == 0 {
			t.row(protocol, metadataText(r.GetMetadata()), hostsText(r.GetHosts()), "nothing", "", "", "")
		}
	}
}

func httpConditionsText(c *pb.HttpRoute_Retry_Conditions) string {
	var parts []string
	for _, r := range c.GetStatusRanges() {
		if r.GetStart() == r.GetEnd() {
			parts = append(parts, fmt.Sprint(r.GetStart()))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r.GetStart(), r.GetEnd()))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " on " + strings.Join(parts, ",")
}

func grpcConditionsText(c *pb.GrpcRoute_Retry_Conditions) string {
	var parts []string
	for _, condition := range []struct {
		name string
		set  bool
	}{
		{"cancelled", c.GetCancelled()}, {"deadline-exceeded", c.GetDeadineExceeded()}, {"internal", c.GetInternal()},
		{"resource-exhausted", c.GetResourceExhausted()}, {"unavailable", c.GetUnavailable()},
	} {
		if condition.set {
			parts = append(parts, condition.name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " on " + strings.Join(parts, ",")
}

func retryText(limit uint32, timeout *durationpb.Duration) string {
	text := fmt.Sprintf(", limit %d", limit)
	if timeout != nil {
		text += ", " + durationText(timeout) + " each"
	}
	return text
}

func httpFilterText(f *pb.HttpRoute_Filter) string {
	switch kind := f.GetKind().(type) {
	case *pb.HttpRoute_Filter_FailureInjector:
		return fmt.Sprintf("fails with %d %s", kind.FailureInjector.GetStatus(), kind.FailureInjector.GetMessage())
	case *pb.HttpRoute_Filter_RequestHeaderModifier:
		return requestModifierText(kind.RequestHeaderModifier)
	case *pb.HttpRoute_Filter_ResponseHeaderModifier:
		return responseModifierText(kind.ResponseHeaderModifier)
	case *pb.HttpRoute_Filter_Redirect:
		return redirectText(kind.Redirect)
	}
	return "unknown filter"
}

func (t *outboundTable) grpc(routes []*pb.GrpcRoute) {
	for _, r := range routes {
		for _, rule := range r.GetRules() {
			settings := texts(rule.GetFilters(), grpcFilterText)
			settings = append(settings, timeoutsText(rule.GetTimeouts())...)
			if retry := rule.GetRetry(); retry != nil {
				settings = append(settings, "retry"+grpcConditionsText(retry.GetConditions())+retryText(retry.GetMaxRetries(), retry.GetTimeout()))
			}
			d := rule.GetBackends()
			t.backends("grpc", metadataText(r.GetMetadata()), hostsText(r.GetHosts()), matchesText(rule.GetMatches(), grpcMatchText), settings,
				tableBackends(d.GetFirstAvailable().GetBackends(), d.GetRandomAvailable().GetBackends(), grpcFilterText))
		}
		if len(r.GetRules()) == 0 {
			t.row("grpc", metadataText(r.GetMetadata()), hostsText(r.GetHosts()), "nothing", "", "", "")
		}
	}
}

func grpcFilterText(f *pb.GrpcRoute_Filter) string {
	switch kind := f.GetKind().(type) {
	case *pb.GrpcRoute_Filter_FailureInjector:
		return fmt.Sprintf("fails with %d %s", kind.FailureInjector.GetCode(), kind.FailureInjector.GetMessage())
	case *pb.GrpcRoute_Filter_RequestHeaderModifier:
		return requestModifierText(kind.RequestHeaderModifier)
	}
	return "unknown filter"
}

func (t *outboundTable) opaque(routes []*pb.OpaqueRoute) {
	for _, r := range routes {
		for _, rule := range r.GetRules() {
			d := rule.GetBackends()
			t.backends("opaque", metadataText(r.GetMetadata()), "", "all", texts(rule.GetFilters(), opaqueFilterText),
				tableBackends(d.GetFirstAvailable().GetBackends(), d.GetRandomAvailable().GetBackends(), opaqueFilterText))
		}
	}
}

func opaqueFilterText(f *pb.OpaqueRoute_Filter) string {
	if f.GetInvalid() != nil {
		return "fails: " + f.GetInvalid().GetMessage()
	}
	return "forbidden"
}

func (t *outboundTable) tls(routes []*pb.TlsRoute) {
	for _, r := range routes {
		var names []string
		for _, sni := range r.GetSnis() {
			if sni.GetSuffix() != nil {
				names = append(names, suffixText(sni.GetSuffix().GetReverseLabels()))
			} else {
				names = append(names, sni.GetExact())
			}
		}
		for _, rule := range r.GetRules() {
			d := rule.GetBackends()
			t.backends("tls", metadataText(r.GetMetadata()), strings.Join(names, ","), "all", texts(rule.GetFilters(), tlsFilterText),
				tableBackends(d.GetFirstAvailable().GetBackends(), d.GetRandomAvailable().GetBackends(), tlsFilterText))
		}
	}
}

func tlsFilterText(f *pb.TlsRoute_Filter) string {
	if f.GetInvalid() != nil {
		return "fails: " + f.GetInvalid().GetMessage()
	}
	return "forbidden"
}
