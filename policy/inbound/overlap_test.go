package inbound

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"sigs.k8s.io/yaml"

	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// headers is a stream that keeps the headers of an answer.
type headers struct {
	grpc.ServerTransportStream
	metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.MD = metadata.Join(h.MD, md)
	return nil
}

// Of two Servers that select one port the older has it (B34, policy-inbound
// 4.4). The other is named wherever somebody may look for what it does.
func TestOverlappingServers(t *testing.T) {
	server := func(name, created, spec string) string {
		return "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {namespace: ns, name: " + name + ", creationTimestamp: '" + created + "'}, spec: {" + spec + "}}"
	}
	const old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		overlaps := func() string {
			var lines []string
			for _, p := range c.server.Overlaps() {
				lines = append(lines, p.String())
			}
			return strings.Join(lines, "\n")
		}
		want := func(what, want, got string) {
			t.Helper()
			if got != want {
				t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
			}
		}
		header := func() string {
			h := &headers{}
			if _, err := c.server.GetPort(grpc.NewContextWithServerTransportStream(context.Background(), h), &pb.PortSpec{Workload: "ns:a", Port: 80}); err != nil {
				t.Fatal(err)
			}
			return strings.Join(h.Get(OverlapHeader), "; ")
		}
		stored := func(doc string) string {
			object := &policyv1beta3.Server{}
			if err := yaml.Unmarshal([]byte(doc), object); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, p := range c.server.OverlapsOf(object) {
				lines = append(lines, p.String())
			}
			return strings.Join(lines, "\n")
		}

		c.apply(pod("a", "}\nspec: {}"), pod("b", "}\nspec: {}"), server("elder", old, "podSelector: {}, port: 80"))
		want("one Server", "", overlaps())
		want("one Server, at its port", "", header())
		const line = "Server ns/younger: spec.port: port 80 of a and 1 more is taken by Server elder, which is older or comes first by name; this Server has no effect there"
		younger := server("younger", young, "podSelector: {}, port: 80")
		want("before it is stored", line, stored(younger))
		want("another port", "", stored(server("younger", young, "podSelector: {}, port: 81")))
		want("other workloads", "", stored(server("younger", young, "externalWorkloadSelector: {}, port: 80")))
		want("the elder as it is", "", stored(server("elder", old, "podSelector: {}, port: 80")))
		c.apply(younger)
		want("two Servers", line, overlaps())
		want("two Servers, at their port", "younger", header())
		want("the elder with one that is there", line, stored(server("elder", old, "podSelector: {}, port: 80")))
		c.remove("Server/ns/elder")
		want("one Server again", "", overlaps())
		want("one Server again, at its port", "", header())
	})
}
