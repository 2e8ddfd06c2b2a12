package destination

import (
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// The tests of Get name the rules that they hold: D01-D91.

func TestGetAuthorities(t *testing.T) {
	for _, test := range []struct {
		name, path string
		code       codes.Code
		message    string
		want       []string
	}{
		{name: "D01", path: name1, want: []string{"A 10.0.0.12:8989"}},
		{name: "D02 no port means 80, literally", path: "name1.ns.svc.cluster.local", want: []string{"A 10.0.0.12:80"}},
		{name: "D04 foreign name", path: "linkerd.io", code: codes.InvalidArgument, message: "Invalid authority: linkerd.io"},
		{name: "D04 short name", path: "name1.ns:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns:8989"},
		{name: "D04 too many labels", path: "a.b.name1.ns.svc.cluster.local:1", code: codes.InvalidArgument, message: "Invalid authority: a.b.name1.ns.svc.cluster.local:1"},
		{name: "D04 too few labels", path: "ns.svc.cluster.local:1", code: codes.InvalidArgument, message: "Invalid authority: ns.svc.cluster.local:1"},
		{name: "D04 empty", path: "", code: codes.InvalidArgument, message: "Invalid authority: "},
		{name: "D04 other domain", path: "name1.ns.svc.other.local:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.other.local:8989"},
		{name: "D04 trailing dot", path: "name1.ns.svc.cluster.local.:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local.:8989"},
		{name: "D04 domain in capitals", path: "name1.ns.svc.CLUSTER.local:8989", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.CLUSTER.local:8989"},
		{name: "D05 port 0", path: "name1.ns.svc.cluster.local:0", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:0"},
		{name: "D05 port 65536", path: "name1.ns.svc.cluster.local:65536", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:65536"},
		{name: "D05 port name", path: "name1.ns.svc.cluster.local:http", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:http"},
		{name: "D05 empty port", path: "name1.ns.svc.cluster.local:", code: codes.InvalidArgument, message: "Invalid authority: name1.ns.svc.cluster.local:"},
		{name: "D05 odd spelling", path: "name1.ns.svc.cluster.local:+08989", want: []string{"A 10.0.0.12:8989"}},
		{name: "D06 IP and port", path: "10.1.0.1:80", code: codes.InvalidArgument, message: "IP queries not supported by Get API: host=10.1.0.1"},
		{name: "D06 IP", path: "10.1.0.1", code: codes.InvalidArgument, message: "IP queries not supported by Get API: host=10.1.0.1"},
		{name: "D06 IPv6 and port", path: "[2001:db8::88]:80", code: codes.InvalidArgument, message: "IP queries not supported by Get API: host=2001:db8::88"},
		{name: "D07", path: "2001:db8::88", code: codes.InvalidArgument, message: "Invalid authority: 2001:db8::88"},
		{name: "D08", path: "nope.ns.svc.cluster.local:80", code: codes.NotFound, message: "Service nope.ns not found"},
		{name: "D08 case", path: "NAME1.ns.svc.cluster.local:80", code: codes.NotFound, message: "Service NAME1.ns not found"},
		{name: "D09, B23", path: "ext.ns.svc.cluster.local:80", code: codes.InvalidArgument, message: "Invalid authority: ext.ns.svc.cluster.local:80"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			bubble(t, testConfig(), func(t *testing.T, c *cluster) {
				c.base()
				c.apply(externalName)
				s := c.get(test.path)
				s.want(test.want...)
				if test.code != codes.OK {
					s.wantStatus(test.code, test.message)
				} else {
					s.wantOpen()
				}
			})
		})
	}
}

const externalName = "kind: Service\nmetadata: {namespace: ns, name: ext}\nspec: {type: ExternalName, externalName: example.org}\n"

// A Service that is no ExternalName any more answers new calls.
func TestGetExternalNameNoMore(t *testing.T) {
	rulebook.Covers(t, "B23")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(externalName)
		c.get("ext.ns.svc.cluster.local:80").wantStatus(codes.InvalidArgument, "Invalid authority: ext.ns.svc.cluster.local:80")
		c.apply("kind: Service\nmetadata: {namespace: ns, name: ext}\nspec: {ports: [{port: 80}]}\n")
		c.get("ext.ns.svc.cluster.local:80").wantOpen()
	})
}

// The scheme does not matter.
func TestGetIgnoresScheme(t *testing.T) {
	rulebook.Covers(t, "D03")
	for _, scheme := range []string{"", "k8s", "http:"} {
		rulebook.Run(t, "D03 "+scheme, func(t *testing.T) {
			bubble(t, testConfig(), func(t *testing.T, c *cluster) {
				c.base()
				c.call(&pb.GetDestination{Scheme: scheme, Path: name1}).want("A 10.0.0.12:8989")
			})
		})
	}
}

// D 1.2: nor does a token that cannot be read.
func TestGetIgnoresBadTokens(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		for _, token := range []string{"{", `{"ns":1}`, "{}\n", `{"nodeName":"nowhere"}`} {
			c.get(name1, token).want("A 10.0.0.12:8989")
		}
	})
}

// Deleting the Service takes everything, re-creating it gives it back.
func TestGetServiceRecreated(t *testing.T) {
	rulebook.Covers(t, "D32, D33, L11")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		s := c.get(name1)
		s.want("A 10.0.0.12:8989")
		c.remove("Service/ns/name1")
		s.want("R 10.0.0.12:8989")
		s.wantOpen()
		c.get(name1).wantStatus(codes.NotFound, "Service name1.ns not found")
		c.apply(serviceYAML("name1", "{port: 8989}"))
		taken := s.Take()
		if len(taken) != 1 || brief(taken[0]) != "A 10.0.0.12:8989" {
			t.Fatalf("after the re-creation: %v", taken)
		}
		if got := labelText(taken[0].GetAdd().MetricLabels); got != "namespace=ns service=name1" {
			t.Errorf("set labels %q", got)
		}
	})
}

// Instances by hostname.
func TestGetInstances(t *testing.T) {
	rulebook.Covers(t, "D13, D14, D15, B10, B11")
	before := []string{
		serviceYAML("sts", "{port: 8989}"), podYAML("pod-0", "10.0.0.13"),
		sliceOf("sts", "a", "IPv4", "[{name: '', port: 8989}]", "10.0.0.13 pod-0, hostname: pod-0", "10.0.0.14", "10.0.0.15, hostname: pod-1"),
	}
	for _, sc := range []scenario{
		{name: "D13, B10, B11", before: before, path: "pod-0.sts.ns.svc.cluster.local:8989", steps: []step{{want: []string{"A 10.0.0.13:8989"}}}},
		{name: "D14 a hostname that comes later and changes", before: append(before, podYAML("pod-2", "10.0.0.16")), path: "pod-2.sts.ns.svc.cluster.local:8989", steps: []step{
			{},
			{apply: []string{sliceOf("sts", "b", "IPv4", "[{name: '', port: 8989}]", "10.0.0.16 pod-2")}},
			{apply: []string{sliceOf("sts", "b", "IPv4", "[{name: '', port: 8989}]", "10.0.0.16 pod-2, hostname: pod-2")}, want: []string{"A 10.0.0.16:8989"}},
			{apply: []string{sliceOf("sts", "b", "IPv4", "[{name: '', port: 8989}]", "10.0.0.16 pod-2, hostname: pod-3")}, want: []string{"R 10.0.0.16:8989"}},
		}},
		{name: "D14", before: before, path: "zzz.sts.ns.svc.cluster.local:8989", steps: []step{{}}},
		{name: "D15, B10", before: before, path: "sts.ns.svc.cluster.local:8989", steps: []step{{want: []string{"A 10.0.0.13:8989 10.0.0.14:8989 10.0.0.15:8989"}}}},
	} {
		rulebook.Run(t, sc.name, sc.run)
	}
}
