package destination

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// As TestOrderDoesNotMatter, for GetProfile: the last profile of a stream is
// what a client gets that comes last, to this cluster and to one that was built
// up in another order (D 1.14, D 2.4). Where a late call means something else
// than the stream did when it opened, or has nothing to say, there is nothing
// to compare.
func TestOrderDoesNotMatterToProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			history := newCluster(t, testConfig())
			var streams []*drawnProfile
			defer func() {
				for _, s := range streams {
					s.Cancel()
				}
				synctest.Wait()
			}()
			names := slices.Sorted(maps.Keys(profileObjects))
			final := map[string]string{}
			for range rapid.IntRange(1, 40).Draw(rt, "events") {
				name := rapid.SampledFrom(names).Draw(rt, "object")
				history.objects.Draw(rt, name, profileObjects[name], final)
				if rapid.IntRange(0, 2).Draw(rt, "settle") > 0 {
					history.settle()
				}
				if len(streams) < 8 && rapid.IntRange(0, 3).Draw(rt, "open") == 0 {
					streams = append(streams, history.drawProfile(rt))
				}
			}
			history.settle()

			rebuilt := newCluster(t, testConfig())
			rebuilt.objects.Like(history.objects)
			for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(final))).Draw(rt, "order") {
				rebuilt.put(final[name])
			}
			rebuilt.settle()
			for _, s := range streams {
				got := s.hold()
				for which, c := range map[string]*cluster{"same": history, "rebuilt": rebuilt} {
					fresh := c.profile(s.path, s.token)
					taken := fresh.Take()
					fresh.Cancel()
					if len(taken) == 0 || got == nil || !sameSubject(got, taken[0]) {
						continue
					}
					if diff := cmp.Diff(taken[0], got, protocmp.Transform()); diff != "" {
						rt.Fatalf("%s from %q: a late client of the %s cluster is told (-) other than this one (+)\n%s", s.path, s.token, which, diff)
					}
				}
			}
			synctest.Wait()
		})
	})
}

// sameSubject tells whether two profiles are about the same Service or address.
func sameSubject(a, b *pb.DestinationProfile) bool {
	if a.Endpoint == nil || b.Endpoint == nil {
		return a.Endpoint == nil && b.Endpoint == nil && a.FullyQualifiedName == b.FullyQualifiedName
	}
	return addrText(a.Endpoint.Addr) == addrText(b.Endpoint.Addr)
}

// profileObjects are the objects of the test by name, each in some variants.
// ServiceProfiles that cannot be translated leave the last one in force, which
// is not a matter of the current objects alone.
var profileObjects = map[string][]string{
	"Service/ns/name1": {
		serviceYAML("name1", "{name: http, port: 8989}") + "  clusterIP: 10.1.0.1\n",
		"kind: Service\nmetadata: {namespace: ns, name: name1, annotations: {config.linkerd.io/opaque-ports: '8989'}}\nspec: {clusterIP: 10.1.0.1, ports: [{port: 8989}]}\n",
		"kind: Service\nmetadata: {namespace: ns, name: name1, annotations: {config.linkerd.io/opaque-ports: '3306'}}\nspec: {clusterIP: 10.1.0.2, ports: [{port: 8989}]}\n",
	},
	"ServiceProfile/ns/" + name1Name:     {serviceProfileYAML("ns", "a"), serviceProfileYAML("ns", "b")},
	"ServiceProfile/client/" + name1Name: {serviceProfileYAML("client", "a"), serviceProfileYAML("client", "b")},
	"Pod/ns/p1": {
		podYAML("p1", "10.0.0.1"),
		podYAML("p1", "10.0.0.1", notRunning("Pending")),
		podYAML("p1", "10.0.0.1", notRunning("Succeeded")),
		podYAML("p1", "10.0.0.1", annotated("config.linkerd.io/opaque-ports", "8989")),
		podYAML("p1", "10.0.0.1", unmeshed),
		podYAML("p1", "10.0.0.1", ownedBy("ReplicaSet", "rs")),
		podYAML("p1", "10.0.0.9", inHostNetwork, onHost("10.0.0.9")),
	},
	"Pod/ns/p2": {
		podYAML("p2", "10.0.0.2", onHost("10.0.0.9", hostPort7777)),
		podYAML("p2", "10.0.0.1", notRunning("Failed")),
	},
	"ReplicaSet/ns/rs":       {"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: Deployment, name: web}]}\n"},
	"ExternalWorkload/ns/vm": {workloadYAML("vm", "10.0.0.3", ""), workloadYAML("vm", "10.0.0.4", ", annotations: {config.linkerd.io/opaque-ports: http}")},
	"Server/ns/s1":           {serverYAML("s1", "{matchLabels: {app: web}}", "8989", "opaque"), serverYAML("s1", "{}", "pub", "opaque"), serverYAML("s1", "{}", "http", "HTTP/2")},
	"Server/ns/s2": {
		"kind: Server\nmetadata: {namespace: ns, name: s2}\nspec: {externalWorkloadSelector: {}, port: http, proxyProtocol: opaque}\n",
		"kind: Server\nmetadata: {namespace: ns, name: s2}\nspec: {podSelector: {}, port: 7777, proxyProtocol: opaque}\n",
	},
	"EndpointSlice/ns/a": {
		sliceYAML("a", 8989, "10.0.0.1 p1, hostname: h"),
		sliceYAML("a", 8989, "10.0.0.2 p2, hostname: h, conditions: {ready: false}"),
	},
}

// drawnProfile is a stream of some client.
type drawnProfile struct {
	profileStream
	path, token string
	last        *pb.DestinationProfile
}

func (c *cluster) drawProfile(rt *rapid.T) *drawnProfile {
	path := rapid.SampledFrom([]string{name1, "10.1.0.1:8989", "10.1.0.2:3306", "10.0.0.1:8989", "10.0.0.1:1", "10.0.0.9:7777", "10.0.0.9:8989",
		"10.0.0.3:8989", "10.0.0.4:8989", "h." + name1}).Draw(rt, "path")
	token := rapid.SampledFrom([]string{"", "ns:client"}).Draw(rt, "token")
	return &drawnProfile{profileStream: c.profile(path, token), path: path, token: token}
}

// hold is the last profile received, nil without one.
func (s *drawnProfile) hold() *pb.DestinationProfile {
	if taken := s.Take(); len(taken) > 0 {
		s.last = taken[len(taken)-1]
	}
	return s.last
}
