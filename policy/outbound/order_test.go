package outbound

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// noDeadline hides the test's deadline from rapid: in a bubble, time is fake.
type noDeadline struct{ *testing.T }

func (noDeadline) Deadline() {}

// The answer is a function of the objects that there are, never of the order
// or grouping of events (B62): whatever happened, the last message of every
// stream is what a client gets that asks last, from a cluster that was built
// up in another order. Each answer is sound, with the name of a default route where there is
// no other.
func TestOrderDoesNotMatter(t *testing.T) {
	rulebook.Covers(t, "B62, G9")
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			history := newCluster(t, defaultConfig())
			defer synctest.Wait()
			defer close(history.stopping)
			names := slices.Sorted(maps.Keys(worldObjects))
			final := map[string]string{}
			type client struct {
				*follower
				namespace, to string
				last          string
			}
			var clients []*client
			// A message is sent again only when a route came, changed or went (G3).
			routesChanged := false
			settle := func() {
				history.settle()
				for _, c := range clients {
					for _, m := range c.Take() {
						text := summary(m)
						if text == c.last && !routesChanged {
							rt.Fatalf("%s from %s: sent twice:\n%s", c.to, c.namespace, text)
						}
						c.last = text
						if strings.Contains(text, "unsound") {
							rt.Fatalf("%s from %s:\n%s", c.to, c.namespace, text)
						}
					}
				}
				routesChanged = false
			}
			for range rapid.IntRange(1, 40).Draw(rt, "events") {
				name := rapid.SampledFrom(names).Draw(rt, "object")
				history.objects.Draw(rt, name, worldObjects[name], final)
				routesChanged = routesChanged || strings.Contains(name, "Route/")
				if rapid.IntRange(0, 2).Draw(rt, "settle") > 0 {
					settle()
				}
				if len(clients) < 8 && rapid.IntRange(0, 2).Draw(rt, "open") == 0 {
					c := &client{namespace: rapid.SampledFrom([]string{"ns", "far", "other"}).Draw(rt, "from"), to: rapid.SampledFrom(worldTargets).Draw(rt, "to")}
					c.follower = history.watch(c.namespace, c.to)
					clients = append(clients, c)
				}
			}
			settle()

			// The same objects, in another order, and their creation times kept.
			rebuilt := newCluster(t, defaultConfig())
			rebuilt.objects.Like(history.objects)
			for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(final))).Draw(rt, "order") {
				rebuilt.put(final[name])
			}
			rebuilt.settle()
			for _, c := range clients {
				last := c.last
				ofService := strings.HasPrefix(last, "Service ")
				for which, cluster := range map[string]*cluster{"same": history, "rebuilt": rebuilt} {
					want := cluster.get(c.namespace, c.to)
					switch {
					case c.End() != "":
						// What its address stands for changed, if only for a time.
						continue
					case ofService && !strings.HasPrefix(want, "Service "):
						continue // a stream stays with the Service that it found
					case ofService && strings.Contains(want, "undefined-port"):
						continue // and, if that had the port, with the port
					case ofService && !strings.HasPrefix(want, strings.Fields(last)[0]+" "+strings.Fields(last)[1]):
						continue // and with its name
					}
					if want != last {
						rt.Fatalf("%s from %s: a late client of the %s cluster gets\n%s\nand this one has\n%s", c.to, c.namespace, which, want, last)
					}
				}
			}
		})
	})
}

var worldTargets = []string{"10.96.0.10:4191", "10.96.0.10:9999", "10.96.0.10:77", "10.96.0.11:4191", "1.1.1.1:4191", "2.2.2.2:80", "my-svc.ns.svc:4191", "my-svc.ns.svc:80", "nosuch.ns.svc:80"}

// worldObjects are the objects of the test by name, each in some variants.
var worldObjects = func() map[string][]string {
	const anyPort, elsewhere = "group: core, kind: Service, name: my-svc", ", namespace: ns"
	const toBackend = "[{backendRefs: [{name: backend, port: 8888}, {name: my-svc, port: 4191}, {group: policy.linkerd.io, kind: EgressNetwork, name: my-egress}]}]"
	objects := map[string][]string{
		"Service/ns/my-svc": {
			mySvc(),
			mySvc("config.linkerd.io/opaque-ports: '4191'", balancer+": consecutive"),
			mySvc("retry.linkerd.io/http: 5xx", "timeout.linkerd.io/request: 1s", alpha+"penalize-failures: 'true'"),
			serviceSpec("my-svc", "clusterIPs: [10.96.0.10], ports: [{port: 4191, appProtocol: kubernetes.io/h2c}, {port: 77}]"),
		},
		"Service/ns/other":                     {service("other", "10.96.0.11"), service("other", "10.96.0.10")},
		"Service/ns/backend":                   {backendSvc},
		"EgressNetwork/ns/my-egress":           {egress("my-egress", "Allow", ""), egress("my-egress", "Deny", "[{cidr: 1.1.0.0/16}]", balancer+": unified")},
		"EgressNetwork/ns/specific":            {egress("specific", "Deny", "[{cidr: 1.1.1.0/24}]"), egress("specific", "Allow", "[{cidr: 2.2.2.2/32}]")},
		"EgressNetwork/linkerd-egress/global":  {egressOf("linkerd-egress", "global", "Allow", "")},
		"EgressNetwork/far/theirs":             {egressOf("far", "theirs", "Deny", "[{cidr: 9.0.0.0/8}]")},
		"Service/elsewhere/nothing-to-do-here": {strings.Replace(service("nothing-to-do-here", "10.96.0.44"), "namespace: ns", "namespace: elsewhere", 1)},
	}
	for _, v := range allVariants {
		objects[v.of("ns", "a")] = []string{
			v.route(routeDoc{name: "a", parents: []string{toSvc, toEgr}}),
			v.route(routeDoc{name: "a", parents: []string{toSvc}, unaccepted: true}),
			v.route(routeDoc{name: "a", parents: []string{anyPort}, rules: toBackend}),
			v.route(routeDoc{name: "a", parents: []string{toEgr}, rules: toBackend}),
		}
		objects[v.of("far", "a")] = []string{
			v.route(routeDoc{name: "a", namespace: "far", parents: []string{toSvc + elsewhere}}),
			v.route(routeDoc{name: "a", namespace: "far", parents: []string{anyPort + elsewhere, toEgr + elsewhere}, rules: toBackend}),
			v.route(routeDoc{name: "a", namespace: "far", parents: []string{"group: core, kind: Service, name: theirs"}}),
		}
	}
	return objects
}()
