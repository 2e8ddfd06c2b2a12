package outbound

import (
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestLookup(t *testing.T) {
	dual := serviceSpec("dual", "clusterIPs: [10.96.0.20, 'fd00:10:96::20'], ports: [{port: 4191}]")
	for _, row := range []struct {
		name string
		docs []string
		to   string
		want string
	}{
		{"P135 in the cluster's networks, unused", []string{mySvc()}, "10.8.255.255:4191", "NotFound No such service"},
		{"P138 cluster IP", []string{mySvc()}, "10.96.0.10:4191", defaultPolicy},
		{"P139 undeclared port", []string{mySvc()}, "10.96.0.10:1234", `
			Service ns/my-svc:1234 opaque
			opaque undefined-port
			  filters forbidden:{} -> nothing`},
		{"P140 second address", []string{dual}, "[fd00:10:96::20]:4191", `
			Service ns/dual:4191 detect
			opaque opaq
			  -> first Service ns/dual:4191
			http http
			  (path:{prefix:/}) -> first Service ns/dual:4191`},
		{"P141 authority", []string{mySvc()}, "my-svc.ns.svc.cluster.local:4191", defaultPolicy},
		{"P141 trailing dot", []string{mySvc()}, "my-svc.ns.svc.cluster.local.:4191", defaultPolicy},
		{"P141 short", []string{mySvc()}, "my-svc.ns.svc:4191", defaultPolicy},
		{"other domain", []string{mySvc()}, "my-svc.ns.svc.other.domain:4191", defaultPolicy},
		{"user information", []string{mySvc()}, "a%20b@my-svc.ns.svc:4191", defaultPolicy},
		{"port 0 is 80", nil, "my-svc.ns.svc:0", serviceDefault("my-svc", "80")},
		{"port that is none is 80", nil, "my-svc.ns.svc:http", serviceDefault("my-svc", "80")},
		{"port out of range is 80", nil, "my-svc.ns.svc:65536", serviceDefault("my-svc", "80")},
		{"the last port", nil, "my-svc.ns.svc:65535", serviceDefault("my-svc", "65535")},
		{"several trailing dots", nil, "my-svc.ns.svc..:1", serviceDefault("my-svc", "1")},
		{"empty port is 80", nil, "my-svc.ns.svc:", serviceDefault("my-svc", "80")},
		{"P142 no port", nil, "my-svc.ns.svc.cluster.local", serviceDefault("my-svc", "80")},
		{"P143 missing Service", nil, "nosuch.ns.svc.cluster.local:8080", serviceDefault("nosuch", "8080")},
		{"a missing Service has no opaque ports", nil, "nosuch.ns.svc.cluster.local:3306", serviceDefault("nosuch", "3306")},
		{"case is preserved", nil, "My-Svc.ns.svc:80", serviceDefault("My-Svc", "80")},
		{"P144 foreign name", nil, "example.com:80", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"P144 address as authority", nil, "10.0.0.1", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"upper-case svc", nil, "a.b.SVC:80", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"empty name", nil, ".ns.svc:80", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"empty namespace", nil, "a..svc:80", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"P145 empty", nil, "", "InvalidArgument invalid authority"},
		{"blank", nil, "a b", "InvalidArgument invalid authority"},
		{"path", nil, "a.b.svc/x", "InvalidArgument invalid authority"},
		{"two ports", nil, "a.b.svc:80:81", "InvalidArgument invalid authority"},
		{"encoded host", nil, "a%2eb.svc", "InvalidArgument invalid authority"},
		{"open bracket", nil, "[::1", "InvalidArgument invalid authority"},
		{"address in brackets", nil, "[::1]", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"address in brackets with what is no port", nil, "[::1]:http", "NotFound authority must be of the form <name>.<namespace>.svc.cluster.local"},
		{"blank in brackets", nil, "[ ]", "InvalidArgument invalid authority"},
		{"blank in user information", nil, "a b@my-svc.ns.svc", "InvalidArgument invalid authority"},
		{"user without host", nil, "me@", "InvalidArgument invalid authority"},
		{"port alone", nil, ":80", "InvalidArgument authority must have a host"},
		{"P147", []string{egress("my-egress", "Allow", "")}, "1.1.1.1:4191", egressPolicy},
		{"P148", []string{egress("my-egress", "Deny", "")}, "1.1.1.1:4191", `
			EgressNetwork ns/my-egress:4191 detect
			opaque tcp-egress-deny
			  filters forbidden:{} -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191
			http http-egress-deny
			  (path:{prefix:/}) filters failure_injector:{status:403 message:traffic not allowed} -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191`},
		{"P149", nil, "1.1.1.1:80", fallbackPolicy},
		{"the last port", nil, "1.1.1.1:65535", strings.ReplaceAll(fallbackPolicy, ":80", ":65535")},
		{"P149 IPv6", nil, "[2001:db8::1]:80", `
			egress-fallback detect
			opaque egress-fallback
			  -> first egress-fallback at [2001:db8::1]:80
			http egress-fallback
			  () -> first egress-fallback at [2001:db8::1]:80`},
		{"headless", []string{serviceSpec("h", "clusterIP: None, clusterIPs: [None], ports: [{port: 80}]")}, "10.96.0.30:80", "NotFound No such service"},
		{"without ports", []string{serviceSpec("h", "clusterIPs: [10.96.0.30]")}, "10.96.0.30:80", "NotFound No such service"},
		{"unparseable address", []string{serviceSpec("h", "clusterIPs: [x, 10.96.0.30], ports: [{port: 80}]")}, "10.96.0.30:80", serviceDefault("h", "80")},
		{"NodePort", []string{serviceSpec("h", "type: NodePort, clusterIPs: [10.96.0.30], ports: [{port: 80}]")}, "10.96.0.30:80", serviceDefault("h", "80")},
		{"a Service before an EgressNetwork", []string{serviceSpec("h", "clusterIPs: [1.1.1.1], ports: [{port: 80}]"), egress("my-egress", "Allow", "")}, "1.1.1.1:80", serviceDefault("h", "80")},
		{"two Services claim an address: the older", []string{service("b", "10.96.0.30"), service("a", "10.96.0.30")}, "10.96.0.30:9999", serviceDefault("b", "9999")},
		{"two Services claim an address: the older, also in other order", []string{service("a", "10.96.0.30"), service("b", "10.96.0.30")}, "10.96.0.30:9999", serviceDefault("a", "9999")},
		{"IPv4 in IPv6 is another address", []string{mySvc()}, "[::ffff:10.96.0.10]:4191", `
			egress-fallback detect
			opaque egress-fallback
			  -> first egress-fallback at [::ffff:10.96.0.10]:4191
			http egress-fallback
			  () -> first egress-fallback at [::ffff:10.96.0.10]:4191`},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(row.docs...)
				wantText(t, row.want, c.get("ns", row.to))
			})
		})
	}
}

func serviceDefault(name, port string) string {
	return "Service ns/" + name + ":" + port + " detect\nopaque opaq\n  -> first Service ns/" + name + ":" + port +
		"\nhttp http\n  (path:{prefix:/}) -> first Service ns/" + name + ":" + port
}

// The checks come in this order, P136, P137, P146.
func TestBadRequests(t *testing.T) {
	ip := net.NewIPAddress(netip.MustParseAddr("10.96.0.10"))
	addr := func(ip *net.IPAddress, port uint32) *pb.TrafficSpec_Addr {
		return &pb.TrafficSpec_Addr{Addr: &net.TcpAddress{Ip: ip, Port: port}}
	}
	for _, row := range []struct {
		name string
		spec *pb.TrafficSpec
		want string
	}{
		{"P136", &pb.TrafficSpec{SourceWorkload: "bad"}, "InvalidArgument target is required"},
		{"P146", &pb.TrafficSpec{SourceWorkload: "bad", Target: addr(nil, 0)}, "InvalidArgument Invalid workload: bad"},
		{"P146 before the authority", &pb.TrafficSpec{SourceWorkload: "bad", Target: &pb.TrafficSpec_Authority{}}, "InvalidArgument Invalid workload: bad"},
		{"P137 port 70000", &pb.TrafficSpec{SourceWorkload: "ns:x", Target: addr(nil, 70000)}, "InvalidArgument port outside valid range"},
		{"P137 port 0", &pb.TrafficSpec{SourceWorkload: "ns:x", Target: addr(nil, 0)}, "InvalidArgument port cannot be zero"},
		{"P137 no address", &pb.TrafficSpec{SourceWorkload: "ns:x", Target: addr(nil, 80)}, "InvalidArgument traffic target must have an IP"},
		{"P137 no address at all", &pb.TrafficSpec{SourceWorkload: "ns:x", Target: &pb.TrafficSpec_Addr{}}, "InvalidArgument port cannot be zero"},
		{"empty address", &pb.TrafficSpec{SourceWorkload: "ns:x", Target: addr(&net.IPAddress{}, 80)}, "InvalidArgument failed to parse target addr: invalid IP address"},
		{"JSON token", &pb.TrafficSpec{SourceWorkload: `{"ns":"ns","pod":"p"}` + "\n", Target: addr(ip, 4191)}, defaultPolicy},
		{"the pod need not exist", &pb.TrafficSpec{SourceWorkload: "elsewhere:x", Target: addr(ip, 4191)}, defaultPolicy},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc())
				wantText(t, row.want, c.ask(row.spec))
				s := c.open(proto.CloneOf(row.spec))
				if end := s.End(); end != "" {
					wantText(t, row.want, end)
				}
			})
		})
	}
}

// Another cluster domain is stripped as often as it is there, and printed.
func TestClusterDomain(t *testing.T) {
	config := defaultConfig()
	config.ClusterDomain = "k8s.test"
	bubble(t, config, func(t *testing.T, c *cluster) {
		wantText(t, "NotFound authority must be of the form <name>.<namespace>.svc.k8s.test", c.get("ns", "a.b"))
		answer, err := c.server.Get(t.Context(), spec("ns", "a.ns.svc.k8s.testk8s.test.:81"))
		if err != nil {
			t.Fatal(err)
		}
		path := answer.GetProtocol().GetDetect().GetHttp1().GetRoutes()[0].GetRules()[0].GetBackends().GetFirstAvailable().GetBackends()[0].GetBackend().GetBalancer().GetDiscovery().GetDst().GetPath()
		wantText(t, "a.ns.svc.k8s.test:81", path)
	})
}

func FuzzSplitAuthority(f *testing.F) {
	for _, text := range []string{"a.b.svc:80", "[::1]:80", "u%20@h", ":80", "", "a:b:c", "h:"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, _, err := splitAuthority(text)
		if err == nil && host == "" {
			t.Errorf("%q has an empty host", text)
		}
		serviceName(host, "cluster.local")
	})
}
