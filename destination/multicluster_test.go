package destination

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// remoteCluster is a linked cluster with objects of its own.
func (c *cluster) remoteCluster(name, trustDomain string, docs ...string) *cluster {
	c.t.Helper()
	st, err := state.New(state.Config{Cluster: name, Kinds: state.RemoteKinds(true)})
	if err != nil {
		c.t.Fatal(err)
	}
	remote := &cluster{t: c.t, state: st, links: c.links, objects: objects.NewStore(c.t, st)}
	remote.objects.Born = c.objects.Born
	for _, doc := range docs {
		remote.put(doc)
	}
	c.link(name, trustDomain, st)
	remote.graphs = c.graphs[len(c.graphs)-1:]
	return remote
}

func mirror(labels string) string {
	return "kind: Service\nmetadata: {namespace: ns, name: foo-target, labels: {" + labels + "}}\nspec: {ports: [{port: 8989}]}\n"
}

const (
	remoteLabel  = "multicluster.linkerd.io/remote-discovery: target"
	remoteName   = "multicluster.linkerd.io/remote-service: foo"
	fooTarget    = "foo-target.ns.svc.cluster.local:8989"
	remoteHinted = "[{name: '', port: 8989}]"
)

func TestGetRemote(t *testing.T) {
	rulebook.Covers(t, "D81, L09")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		remote := c.remoteCluster("target", "r.local",
			serviceYAML("foo", "{port: 8989}"), podYAML("r-1", "10.9.0.1", ownedBy("Job", "j")),
			sliceOf("foo", "a", "IPv4", remoteHinted, "10.9.0.1 r-1, zone: b, "+hint("b"), "10.9.0.2 ew:vm", "10.9.0.3, "+hint("c")))
		c.apply(nodeYAML("na", "c"), mirror(remoteLabel+", "+remoteName))
		s := c.get(fooTarget, "na")
		taken := s.Take()
		if len(taken) != 1 || brief(taken[0]) != "A 10.9.0.1:8989 10.9.0.3:8989" {
			t.Fatalf("want both endpoints whatever their hints, and not the workload; got %v", taken)
		}
		add := taken[0].GetAdd()
		if got := labelText(add.MetricLabels); got != "namespace=ns service=foo" {
			t.Errorf("set labels %q", got)
		}
		if got := add.Addrs[0].TlsIdentity.GetDnsLikeIdentity().GetName(); got != "default.ns.serviceaccount.identity.linkerd.r.local" {
			t.Errorf("identity %q", got)
		}
		if got := labelText(add.Addrs[0].MetricLabels); got != "control_plane_ns=linkerd k8s_job=j pod=r-1 serviceaccount=default zone=b zone_locality=remote" {
			t.Errorf("D 1.13, D 1.16: labels %q", got)
		}
		remote.apply(sliceOf("foo", "a", "IPv4", remoteHinted, "10.9.0.1 r-1"))
		s.want("A 10.9.0.1:8989", "R 10.9.0.3:8989")
		remote.apply(serviceYAML("foo", "{port: 8989}", "  internalTrafficPolicy: Local"))
		s.want() // D 1.5
		c.remove("Service/ns/foo-target")
		s.want()
		s.wantOpen() // D 1.16
		c.links.set("target", nil)
		c.settle()
		s.want()
		s.wantStatus(codes.OK, "") // D 1.16, O
	})
}

func TestGetRemoteErrors(t *testing.T) {
	for _, test := range []struct {
		name, service string
		code          codes.Code
		message       string
	}{
		{"D82 no name", mirror(remoteLabel), codes.FailedPrecondition, "Remote discovery service missing remote service name " + fooTarget},
		{"D82 unknown cluster", mirror("multicluster.linkerd.io/remote-discovery: zzz, " + remoteName), codes.NotFound, "Remote cluster not found: zzz"},
		{"D 1.4 remote ExternalName", mirror(remoteLabel + ", multicluster.linkerd.io/remote-service: ext"), codes.InvalidArgument, "Invalid authority: " + fooTarget},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			bubble(t, testConfig(), func(t *testing.T, c *cluster) {
				c.remoteCluster("target", "r.local", externalName)
				c.apply(test.service)
				c.get(fooTarget).wantStatus(test.code, test.message)
			})
		})
	}
}

// D 1.16: a remote Service that does not exist yet is silence.
func TestGetRemoteLater(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		remote := c.remoteCluster("target", "r.local")
		c.apply(mirror(remoteLabel + ", " + remoteName))
		s := c.get(fooTarget)
		s.want()
		remote.apply(serviceYAML("foo", "{port: 8989}"), sliceOf("foo", "a", "IPv4", remoteHinted, "10.9.0.1"))
		s.want("A 10.9.0.1:8989")
	})
}

func fed(annotations string) string {
	return "kind: Service\nmetadata: {namespace: ns, name: fed, annotations: {" + annotations + "}}\nspec: {ports: [{port: 8989}]}\n"
}

const (
	fedPath  = "fed.ns.svc.cluster.local:8989"
	localBB  = "multicluster.linkerd.io/local-discovery: bb"
	remoteBB = "multicluster.linkerd.io/remote-discovery: 'bb@east'"
)

func bb(endpoints ...string) []string {
	return []string{serviceYAML("bb", "{port: 8989}"), sliceOf("bb", "bb-1", "IPv4", "[{name: '', port: 8989}]", endpoints...)}
}

func TestGetFederated(t *testing.T) {
	rulebook.Covers(t, "D83, D84, D85, D86, D87")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.remoteCluster("east", "r.local", bb("10.9.0.1")...)
		c.remoteCluster("north", "n.local", bb("10.8.0.1")...)
		c.apply(bb("10.0.0.1")...)
		c.apply(fed(localBB + ", " + remoteBB))
		s := c.get(fedPath)
		s.want("A 10.9.0.1:8989", "A 10.0.0.1:8989") // D83; the order is free
		c.apply(fed(localBB + ", multicluster.linkerd.io/remote-discovery: 'bb@east,bb@north'"))
		s.want("A 10.8.0.1:8989") // D84
		c.apply(fed(localBB + ", multicluster.linkerd.io/remote-discovery: 'bb@north'"))
		s.want("R 10.9.0.1:8989") // D85
		c.apply(fed("multicluster.linkerd.io/remote-discovery: 'bb@north'"))
		s.want("R 10.0.0.1:8989")
		c.apply(fed(localBB + ", multicluster.linkerd.io/remote-discovery: 'bb@north'"))
		s.want("A 10.0.0.1:8989")
		c.apply(fed(localBB + ", multicluster.linkerd.io/remote-discovery: 'none@north'"))
		s.want("R 10.8.0.1:8989")
		c.apply(fed(localBB))
		s.want() // D86: nothing to take back
		c.remove("Service/ns/fed")
		s.want()
		s.wantStatus(codes.OK, "") // D87
	})
}

// A member without endpoints is dropped in silence.
func TestGetFederatedEmptyMember(t *testing.T) {
	rulebook.Covers(t, "D86")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.remoteCluster("east", "r.local", bb()...)
		c.apply(bb("10.0.0.1")...)
		c.apply(fed(remoteBB))
		s := c.get(fedPath)
		s.want()
		c.apply(fed(localBB))
		s.want("A 10.0.0.1:8989")
	})
}

// A Service that loses both annotations is federated no longer.
func TestGetFederatedNoMore(t *testing.T) {
	rulebook.Covers(t, "D87")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(bb("10.0.0.1")...)
		c.apply(fed(localBB))
		s := c.get(fedPath)
		s.want("A 10.0.0.1:8989")
		c.apply("kind: Service\nmetadata: {namespace: ns, name: fed}\nspec: {ports: [{port: 8989}]}\n")
		s.wantStatus(codes.OK, "")
	})
}

// Members whose cluster comes and goes.
func TestGetFederatedLinks(t *testing.T) {
	rulebook.Covers(t, "L08")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(bb("10.0.0.1")...)
		c.apply(fed(localBB + ", " + remoteBB))
		s := c.get(fedPath)
		s.want("A 10.0.0.1:8989")
		east := c.remoteCluster("east", "r.local", bb("10.9.0.1")...)
		c.settle()
		s.want("A 10.9.0.1:8989")
		link, _ := c.links.Lookup("east")
		c.links.set("east", nil)
		c.settle()
		s.want("R 10.9.0.1:8989")
		c.apply(fed(localBB)) // dropped while it is not linked
		c.links.set("east", link)
		c.settle()
		s.want()
		c.apply(fed(localBB + ", " + remoteBB))
		s.want("A 10.9.0.1:8989")
		east.apply(bb("10.9.0.1", "10.9.0.2")...)
		s.want("A 10.9.0.2:8989")
		s.Cancel()
		c.settle()
		if n := c.server.members.Held(); n != 0 {
			t.Errorf("%d views of federated Services are still held", n)
		}
	})
}

// D 1.15, O: where two members offer one address, the client holds that of the
// local member, or else of the first by cluster, whatever came first.
func TestGetFederatedSharedAddress(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		east := c.remoteCluster("east", "r.local", bb("10.1.1.1", "10.9.0.1")...)
		c.apply(fed(localBB + ", " + remoteBB))
		s := c.get(fedPath)
		s.want("A 10.1.1.1:8989 10.9.0.1:8989")
		c.apply(bb("10.1.1.1")...)
		s.want("A 10.1.1.1:8989") // the local one takes over
		east.apply(bb("10.9.0.1")...)
		s.want() // still offered
		east.apply(bb("10.1.1.1", "10.9.0.1")...)
		s.want() // the local one has precedence
		c.apply(bb()...)
		s.want("A 10.1.1.1:8989") // back to the remote one, never removed
		c.apply(bb("10.1.1.1")...)
		s.want("A 10.1.1.1:8989")
		c.apply(fed(remoteBB))
		s.want("A 10.1.1.1:8989")
		c.apply(fed(localBB))
		s.want("R 10.1.1.1:8989 10.9.0.1:8989", "A 10.1.1.1:8989")
	})
}

// D 1.15, D69: a member that has an address which cannot be told of does not hold it.
func TestGetFederatedBrokenAddress(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		east := c.remoteCluster("east", "r.local", bb("10.1.1.1")...)
		c.apply(podYAML("p", "10.1.1.1", withoutProxy))
		c.apply(bb("10.1.1.1 p")...)
		c.apply(fed(localBB + ", " + remoteBB))
		s := c.get(fedPath)
		s.want("A 10.1.1.1:8989", "A")
		east.apply(bb()...)
		s.want("R 10.1.1.1:8989")
		east.apply(bb("10.1.1.1")...)
		s.want("A 10.1.1.1:8989")
		c.apply(podYAML("p", "10.1.1.1"))
		s.want("A 10.1.1.1:8989") // the local one takes over
		c.apply(podYAML("p", "10.1.1.1", withoutProxy))
		s.want("A 10.1.1.1:8989") // and gives back
	})
}

// D 1.5: hints filter local members, also when the client's node moves.
func TestGetFederatedZones(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.remoteCluster("east", "r.local", bb("10.9.0.1, "+hint("a"), "10.9.0.2, "+hint("b"))...)
		c.apply(nodeYAML("na", "a"), fed(localBB+", "+remoteBB))
		c.apply(bb("10.0.0.1, "+hint("a"), "10.0.0.2, "+hint("b"))...)
		s := c.get(fedPath, "na")
		s.want("A 10.9.0.1:8989 10.9.0.2:8989", "A 10.0.0.1:8989")
		c.apply(nodeYAML("na", "b"))
		s.want("A 10.0.0.2:8989", "R 10.0.0.1:8989")
	})
}

func TestGetFederatedInstances(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.remoteCluster("east", "r.local", bb("10.9.0.1, hostname: pod-0", "10.9.0.2, hostname: pod-1")...)
		c.apply(bb("10.0.0.1, hostname: pod-0", "10.0.0.2")...)
		c.apply(fed(localBB + ", " + remoteBB))
		c.get("pod-0."+fedPath).want("A 10.9.0.1:8989", "A 10.0.0.1:8989")
	})
}

// An annotation can hold more members than a stream can wait for.
func TestTooManyMembers(t *testing.T) {
	var items []string
	for i := range 30000 {
		items = append(items, fmt.Sprint("s", i, "@east"))
	}
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.remoteCluster("east", "r.local")
		c.apply(bb("10.0.0.1")...)
		c.apply(fed(localBB + ", multicluster.linkerd.io/remote-discovery: '" + strings.Join(items, ",") + "'"))
		s := c.get(fedPath)
		s.want("A 10.0.0.1:8989")
		s.wantOpen()
	})
}

func TestMembersOf(t *testing.T) {
	for annotation, want := range map[string]int{"": 0, "a@b": 1, "a@b,c@d": 2, "a@b, a@b": 2, "a@b,a@b": 1, "a": 0, "a@b@c": 0, ",a@b,": 1, "@": 1} {
		bubble(t, testConfig(), func(t *testing.T, c *cluster) {
			c.apply(fed("multicluster.linkerd.io/remote-discovery: '" + annotation + "'"))
			v := c.server.members.Acquire(federationKey{"ns", "fed"})
			defer v.Release()
			if got := v.Current().Value; !got.exists || len(got.members) != want {
				t.Errorf("%q: %v, want %d members", annotation, got, want)
			}
		})
	}
}
