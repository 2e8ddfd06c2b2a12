package destination

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The answer is a function of the objects that there are, never of the order
// or grouping of events: whatever happened, every stream's client ends up
// holding what a client holds that comes last, to a cluster that was built up
// in another order (D 1.14).
func TestOrderDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			config := testConfig()
			config.EnableIPv6 = rapid.Bool().Draw(rt, "ipv6")
			history := newCluster(t, config)
			remote := history.remoteCluster("east", "r.local")
			var streams []*getStream
			defer func() {
				for _, s := range streams {
					s.Cancel()
				}
				synctest.Wait()
			}()
			final := map[string]string{}
			far := map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(worldObjects)) {
				if rapid.IntRange(0, 3).Draw(rt, "at first") > 0 {
					final[name] = worldObjects[name][0]
					history.put(final[name])
				}
			}
			for range rapid.IntRange(1, 40).Draw(rt, "events") {
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(worldObjects))).Draw(rt, "object")
				target, held := history, final
				if name[0] != 'N' && name[0] != 'E' && rapid.IntRange(0, 4).Draw(rt, "far") == 0 {
					target, held = remote, far
				}
				target.objects.Draw(rt, name, worldObjects[name], held)
				if rapid.IntRange(0, 2).Draw(rt, "settle") > 0 {
					history.settle()
				}
				if len(streams) < 8 && rapid.IntRange(0, 3).Draw(rt, "open") == 0 {
					streams = append(streams, history.draw(rt))
				}
			}
			history.settle()

			// The same objects, with their versions, in another order.
			rebuilt := newCluster(t, config)
			rebuilt.objects.Like(history.objects)
			rebuiltRemote := rebuilt.remoteCluster("east", "r.local")
			rebuiltRemote.objects.Like(remote.objects)
			names := rapid.Permutation(slices.Sorted(maps.Keys(final))).Draw(rt, "order")
			for _, name := range names {
				rebuilt.put(final[name])
			}
			for _, name := range slices.Sorted(maps.Keys(far)) {
				rebuiltRemote.put(far[name])
			}
			rebuilt.settle()
			for _, s := range streams {
				if _, ended := s.Status(); ended {
					continue // the Service was not there, or federated no longer
				}
				for which, c := range map[string]*cluster{"same": history, "rebuilt": rebuilt} {
					fresh := c.get(s.path, s.token)
					want := fresh.hold()
					if _, ended := fresh.Status(); ended {
						want = map[string]string{} // the Service is gone, and with it its endpoints
					}
					fresh.Cancel()
					if diff := cmp.Diff(want, s.hold()); diff != "" {
						rt.Fatalf("%s from %q: a late client of the %s cluster holds (-) other than this one (+)\n%s", s.path, s.token, which, diff)
					}
				}
			}
			synctest.Wait()
		})
	})
}

// worldObjects are the objects of the test by name, each in some variants.
var worldObjects = map[string][]string{
	"Service/ns/name1": {
		serviceYAML("name1", "{port: 8989}"),
		serviceYAML("name1", "{name: b, port: 8989}"),
		serviceYAML("name1", "{port: 8989}", "  internalTrafficPolicy: Local"),
	},
	"Service/ns/other": {serviceYAML("other", "{port: 8989}")},
	"Service/ns/fed": {
		fed("multicluster.linkerd.io/local-discovery: name1"),
		fed("multicluster.linkerd.io/local-discovery: other, multicluster.linkerd.io/remote-discovery: 'name1@east'"),
		fed("multicluster.linkerd.io/remote-discovery: 'name1@east,other@east,name1@west'"),
	},
	"Pod/ns/p1": {
		podYAML("p1", "10.0.0.1", onNode("n1")),
		podYAML("p1", "10.0.0.1", annotated("config.linkerd.io/opaque-ports", "8989")),
		podYAML("p1", "10.0.0.1", withoutProxy),
		podYAML("p1", "10.0.0.1", ownedBy("ReplicaSet", "rs")),
	},
	"Pod/ns/p2":              {podYAML("p2", "10.0.0.2", onNode("n2")), podYAML("p2", "10.0.0.2", unmeshed)},
	"ReplicaSet/ns/rs":       {"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: Deployment, name: web}]}\n"},
	"ExternalWorkload/ns/vm": {workloadYAML("vm", "10.0.0.3", ""), workloadYAML("vm", "10.0.0.3", ", annotations: {config.linkerd.io/opaque-ports: http}")},
	"Node//n1":               {nodeYAML("n1", "a"), nodeYAML("n1", "b"), nodeYAML("n1", "")},
	"Server/ns/s1":           {serverYAML("s1", "{matchLabels: {app: web}}", "8989", "opaque"), serverYAML("s1", "{}", "http", "HTTP/2"), serverYAML("s1", "{matchExpressions: [{key: app, operator: In}]}", "8989", "opaque")},
	"Server/ns/s2":           {serverYAML("s2", "{}", "8989", "opaque")},
	"EndpointSlice/ns/a": {
		sliceYAML("a", 8989, "10.0.0.1 p1", "10.0.0.2 p2"),
		sliceYAML("a", 8989, "10.0.0.1 p1, zone: a, "+hint("a"), "10.0.0.2 p2, zone: b, "+hint("b")),
		sliceYAML("a", 9090, "10.0.0.2 p2, hostname: h, zone: b"),
		sliceOf("other", "a", "IPv4", "[{name: '', port: 8989}]", "10.0.0.1 p1"),
		sliceOf("name1", "a", "IPv4", "[{name: b, port: 7000}]", "10.0.0.1 p1"),
	},
	"EndpointSlice/ns/b": {
		sliceYAML("b", 8989, "10.0.0.2 p2", "10.0.0.3 ew:vm", "10.0.0.4"),
		sliceYAML("b", 8989, "10.0.0.1 p2", "10.0.0.4, hostname: h, "+hint("b")),
		"kind: EndpointSlice\nmetadata: {namespace: ns, name: b, labels: {mirror.linkerd.io/cluster-name: e}, ownerReferences: [{kind: Service, name: name1}], annotations: {mirror.linkerd.io/remote-svc-fq-name: x.y.z}}\naddressType: IPv4\nports: [{name: '', port: 8989}]\nendpoints: [{addresses: [10.0.0.2]}, {addresses: [10.0.0.5]}]\n",
	},
	"EndpointSlice/ns/c": {slice6YAML("c", 8989, "2001:db8::1 p1", "2001:db8::2 p2, zone: a, "+hint("a")), slice6YAML("c", 8989, "2001:db8::5")},
}

// draw opens a stream of some client.
func (c *cluster) draw(rt *rapid.T) *getStream {
	path := rapid.SampledFrom([]string{name1, "other.ns.svc.cluster.local:8989", "h." + name1, fedPath, "name1.ns.svc.cluster.local:7000"}).Draw(rt, "path")
	token := rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(rt, "token")
	s := c.get(path, token)
	s.path, s.token = path, token
	return s
}

// noDeadline hides the test's deadline, which may not be asked for in a bubble.
type noDeadline struct{ rapid.TB }
