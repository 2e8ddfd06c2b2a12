package diagnostics

import (
	"fmt"
	"io"
	"strings"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// writeInboundTable prints a row for each authorization: of the whole port,
// and of each route with the requests that it matches.
func writeInboundTable(out io.Writer, s *pb.Server) error {
	t := &inboundTable{}
	t.row("ROUTE", "MATCHES", "AUTHORIZATION", "CLIENTS", "NETWORKS", "FILTERS")
	for _, a := range s.GetAuthorizations() {
		t.authorization("*", "all", a, nil)
	}
	protocol := ""
	switch kind := s.GetProtocol().GetKind().(type) {
	case *pb.ProxyProtocol_Detect_:
		protocol = "detected protocol"
		t.http(kind.Detect.GetHttpRoutes())
		t.limits(kind.Detect.GetHttpLocalRateLimit())
	case *pb.ProxyProtocol_Http1_:
		protocol = "HTTP/1"
		t.http(kind.Http1.GetRoutes())
		t.limits(kind.Http1.GetLocalRateLimit())
	case *pb.ProxyProtocol_Http2_:
		protocol = "HTTP/2"
		t.http(kind.Http2.GetRoutes())
		t.limits(kind.Http2.GetLocalRateLimit())
	case *pb.ProxyProtocol_Grpc_:
		protocol = "gRPC"
		t.grpc(kind.Grpc.GetRoutes())
	case *pb.ProxyProtocol_Opaque_:
		protocol = "opaque"
	case *pb.ProxyProtocol_Tls_:
		protocol = "TLS"
	}
	first := fmt.Sprintf("inbound policy of %s, %s", labelsText(s.GetLabels()), protocol)
	t.lines = append([]string{first}, t.lines...)
	if !t.authorized {
		t.line("no client is authorized")
	}
	return t.write(out)
}

type inboundTable struct {
	table
	authorized bool
}

func labelsText(labels map[string]string) string { return labels["kind"] + " " + labels["name"] }

func (t *inboundTable) authorization(route, matches string, a *pb.Authz, filters []string) {
	t.authorized = true
	var networks []string
	for _, n := range a.GetNetworks() {
		text := fmt.Sprintf("%s/%d", ipText(n.GetNet().GetIp()), n.GetNet().GetPrefixLen())
		for _, e := range n.GetExcept() {
			text += fmt.Sprintf(" without %s/%d", ipText(e.GetIp()), e.GetPrefixLen())
		}
		networks = append(networks, text)
	}
	t.row(route, matches, labelsText(a.GetLabels()), clientsText(a.GetAuthentication()), strings.Join(networks, ","), strings.Join(filters, "; "))
}

func clientsText(a *pb.Authn) string {
	switch permit := a.GetPermit().(type) {
	case *pb.Authn_MeshTLS:
		var names []string
		for _, id := range permit.MeshTLS.GetIdentities().GetIdentities() {
			names = append(names, id.GetName())
		}
		for _, suffix := range permit.MeshTLS.GetIdentities().GetSuffixes() {
			names = append(names, "*."+strings.TrimPrefix(strings.Join(suffix.GetParts(), "."), "."))
		}
		if permit.MeshTLS.GetUnauthenticated() != nil {
			return "any with TLS"
		}
		return strings.Join(names, ",")
	case *pb.Authn_Unauthenticated:
		return "any"
	}
	return "none"
}

func (t *inboundTable) http(routes []*pb.HttpRoute) {
	for _, r := range routes {
		name := metadataText(r.GetMetadata())
		if hosts := hostsText(r.GetHosts()); hosts != "" {
			name += " " + hosts
		}
		for _, rule := range r.GetRules() {
			t.rule(name, matchesText(rule.GetMatches(), httpMatchText), r.GetAuthorizations(), texts(rule.GetFilters(), inboundHTTPFilterText))
		}
	}
}

func (t *inboundTable) grpc(routes []*pb.GrpcRoute) {
	for _, r := range routes {
		name := metadataText(r.GetMetadata())
		if hosts := hostsText(r.GetHosts()); hosts != "" {
			name += " " + hosts
		}
		for _, rule := range r.GetRules() {
			t.rule(name, matchesText(rule.GetMatches(), grpcMatchText), r.GetAuthorizations(), texts(rule.GetFilters(), inboundGRPCFilterText))
		}
	}
}

func (t *inboundTable) rule(route, matches string, authorizations []*pb.Authz, filters []string) {
	for _, a := range authorizations {
		t.authorization(route, matches, a, filters)
	}
	if len(authorizations) == 0 {
		t.row(route, matches, "", "", "", strings.Join(filters, "; "))
	}
}

func inboundHTTPFilterText(f *pb.HttpRoute_Filter) string {
	switch kind := f.GetKind().(type) {
	case *pb.HttpRoute_Filter_RequestHeaderModifier:
		return requestModifierText(kind.RequestHeaderModifier)
	case *pb.HttpRoute_Filter_Redirect:
		return redirectText(kind.Redirect)
	}
	return "unknown filter"
}

func inboundGRPCFilterText(f *pb.GrpcRoute_Filter) string {
	if f.GetRequestHeaderModifier() != nil {
		return requestModifierText(f.GetRequestHeaderModifier())
	}
	return "unknown filter"
}

func (t *inboundTable) limits(l *pb.HttpLocalRateLimit) {
	if l == nil {
		return
	}
	var parts []string
	if l.GetTotal() != nil {
		parts = append(parts, fmt.Sprintf("%d requests per second in all", l.GetTotal().GetRequestsPerSecond()))
	}
	if l.GetIdentity() != nil {
		parts = append(parts, fmt.Sprintf("%d per identity", l.GetIdentity().GetRequestsPerSecond()))
	}
	for _, override := range l.GetOverrides() {
		var names []string
		for _, id := range override.GetClients().GetIdentities() {
			names = append(names, id.GetName())
		}
		parts = append(parts, fmt.Sprintf("%d for %s", override.GetLimit().GetRequestsPerSecond(), strings.Join(names, ",")))
	}
	t.line("%s: %s", metadataText(l.GetMetadata()), strings.Join(parts, ", "))
}
