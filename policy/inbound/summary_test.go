package inbound

import (
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
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
			routes = append(routes, routeText(compact(r.Metadata), compactAll(r.Hosts), rules, r.Authorizations))
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
			routes = append(routes, routeText(compact(r.Metadata), compactAll(r.Hosts), rules, r.Authorizations))
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
		fmt.Fprintf(&b, "limit %s\n", compact(limit))
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
	if got := compact(a.Metadata); got != want || len(a.Networks) == 0 || a.Authentication.GetPermit() == nil {
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
	return name + " " + strings.ReplaceAll(compact(a.Authentication), ":{}", "") + " from " + text
}

func networkText(n *net.IPNetwork) string {
	return netip.PrefixFrom(addr(n.GetIp()), int(n.GetPrefixLen())).String()
}

func addr(ip *net.IPAddress) netip.Addr {
	if v6 := ip.GetIpv6(); v6 != nil {
		var b [16]byte
		for i := range 8 {
			b[i], b[8+i] = byte(v6.First>>(56-8*i)), byte(v6.Last>>(56-8*i))
		}
		return netip.AddrFrom16(b)
	}
	v4 := ip.GetIpv4()
	return netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)})
}

func compactAll[M proto.Message](list []M) string {
	var texts []string
	for _, m := range list {
		texts = append(texts, compact(m))
	}
	return strings.Join(texts, "; ")
}

// compact writes a message on one line, its fields in order, durations as text.
func compact(m proto.Message) string {
	if d, ok := m.(*durationpb.Duration); ok {
		return d.AsDuration().String()
	}
	return strings.TrimSuffix(strings.TrimPrefix(compactMessage(m.ProtoReflect()), "{"), "}")
}

func compactMessage(m protoreflect.Message) string {
	var fields []string
	descriptors := m.Descriptor().Fields()
	for i := range descriptors.Len() {
		field := descriptors.Get(i)
		if !m.Has(field) {
			continue
		}
		value := m.Get(field)
		var text string
		switch {
		case field.IsList():
			var items []string
			for j := range value.List().Len() {
				items = append(items, compactValue(field, value.List().Get(j)))
			}
			text = "[" + strings.Join(items, " ") + "]"
		default:
			text = compactValue(field, value)
		}
		fields = append(fields, string(field.Name())+":"+text)
	}
	return "{" + strings.Join(fields, " ") + "}"
}

func compactValue(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return compactMessage(value.Message())
	case protoreflect.EnumKind:
		return string(field.Enum().Values().ByNumber(value.Enum()).Name())
	case protoreflect.BytesKind:
		return string(value.Bytes())
	}
	return fmt.Sprint(value.Interface())
}
