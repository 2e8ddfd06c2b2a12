package inbound

import (
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/test/compact"
)

// summary writes all of an answer as lines: the server with its protocol, then
// its authorizations, routes and limit.
func summary(m *pb.Server) string {
	var b strings.Builder
	protocol, routes, limit := "none", []string{}, (*pb.HttpLocalRateLimit)(nil)
	http := func(list []*pb.HttpRoute) {
		for _, r := range list {
			var rules []string
			for _, rule := range r.Rules {
				rules = append(rules, ruleText(rule.Matches, rule.Filters))
			}
			routes = append(routes, routeText(compactText(r.Metadata), compactAll(r.Hosts), rules, r.Authorizations))
		}
	}
	switch p := m.GetProtocol().GetKind().(type) {
	case *pb.ProxyProtocol_Detect_:
		protocol, limit = "detect "+p.Detect.Timeout.AsDuration().String(), p.Detect.HttpLocalRateLimit
		http(p.Detect.HttpRoutes)
	case *pb.ProxyProtocol_Http1_:
		protocol, limit = "http1", p.Http1.LocalRateLimit
		http(p.Http1.Routes)
	case *pb.ProxyProtocol_Http2_:
		protocol, limit = "http2", p.Http2.LocalRateLimit
		http(p.Http2.Routes)
	case *pb.ProxyProtocol_Grpc_:
		protocol = "grpc"
		for _, r := range p.Grpc.Routes {
			var rules []string
			for _, rule := range r.Rules {
				rules = append(rules, ruleText(rule.Matches, rule.Filters))
			}
			routes = append(routes, routeText(compactText(r.Metadata), compactAll(r.Hosts), rules, r.Authorizations))
		}
	case *pb.ProxyProtocol_Opaque_:
		protocol = "opaque"
	case *pb.ProxyProtocol_Tls_:
		protocol = "tls"
	}
	fmt.Fprintf(&b, "%s %s/%s %s\n", m.Labels["group"], m.Labels["kind"], m.Labels["name"], protocol)
	if len(m.Labels) != 3 || len(m.ServerIps) > 0 {
		fmt.Fprintf(&b, "unexpected: %v %v\n", m.Labels, m.ServerIps)
	}
	for _, a := range m.Authorizations {
		fmt.Fprintf(&b, "authz %s\n", authzText(a))
	}
	for _, r := range routes {
		b.WriteString(r)
	}
	if limit != nil {
		fmt.Fprintf(&b, "limit %s\n", compactText(limit))
	}
	return strings.TrimSpace(b.String())
}

func ruleText[M, F proto.Message](matches []M, filters []F) string {
	text := compactAll(matches)
	if len(filters) > 0 {
		text += " filters " + compactAll(filters)
	}
	return text
}

func routeText(metadata, hosts string, rules []string, authorizations []*pb.Authz) string {
	text := "route " + metadata
	if hosts != "" {
		text += " hosts " + hosts
	}
	text += "\n"
	for _, r := range rules {
		text += "  rule " + r + "\n"
	}
	for _, a := range authorizations {
		text += "  authz " + authzText(a) + "\n"
	}
	return text
}

// authzText checks that labels and metadata agree, and that nothing is missing
// without which proxies refuse the whole policy (policy-inbound 11).
func authzText(a *pb.Authz) string {
	name := a.Labels["kind"] + "/" + a.Labels["name"]
	want := "default:" + a.Labels["name"]
	if a.Labels["kind"] != "default" {
		want = fmt.Sprintf("{group:%s kind:%s name:%s}", a.Labels["group"], a.Labels["kind"], a.Labels["name"])
		want = "resource:" + want
	}
	if got := compactText(a.Metadata); got != want || len(a.Networks) == 0 || a.Authentication.GetPermit() == nil {
		return fmt.Sprintf("unsound: metadata %s, labels %v, %d networks, authentication %v", got, a.Labels, len(a.Networks), a.Authentication)
	}
	var networks []string
	for _, n := range a.Networks {
		text := networkText(n.Net)
		for _, e := range n.Except {
			text += " except " + networkText(e)
		}
		networks = append(networks, text)
	}
	text := strings.Join(networks, ", ")
	if text == "0.0.0.0/0, ::/0" {
		text = "all"
	}
	if text == "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16" {
		text = "cluster"
	}
	return name + " " + strings.ReplaceAll(compactText(a.Authentication), ":{}", "") + " from " + text
}

func networkText(n *net.IPNetwork) string {
	return netip.PrefixFrom(n.GetIp().Addr(), int(n.GetPrefixLen())).String()
}

func compactAll[M proto.Message](list []M) string {
	var texts []string
	for _, m := range list {
		texts = append(texts, compactText(m))
	}
	return strings.Join(texts, "; ")
}

func compactText(m proto.Message) string { return compact.Text(m, nil) }
