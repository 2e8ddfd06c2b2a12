package destination

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

// profileStream is a client of GetProfile.
type profileStream struct {
	*streams.Stream[*pb.DestinationProfile]
	t testing.TB
}

func (c *cluster) profile(path string, token ...string) profileStream {
	c.t.Helper()
	request := &pb.GetDestination{Path: path, ContextToken: strings.Join(token, "")}
	s := open(c, func(s *streams.Stream[*pb.DestinationProfile]) error { return c.server.GetProfile(request, s) })
	return profileStream{Stream: s, t: c.t}
}

// want compares the profiles since the last want, each written as by briefProfile.
func (s profileStream) want(profiles ...string) {
	s.t.Helper()
	got := []string{}
	for _, p := range s.Take() {
		got = append(got, briefProfile(p))
	}
	if diff := cmp.Diff(append([]string{}, profiles...), got); diff != "" {
		s.t.Errorf("profiles (-want +got):\n%s", diff)
	}
}

// briefProfile is "NAME [ROUTE]" of a Service, "ADDRESS [WORKLOAD]" of an
// endpoint; an asterisk stands for opaque.
func briefProfile(p *pb.DestinationProfile) string {
	words := []string{p.FullyQualifiedName}
	if p.Endpoint != nil {
		words = []string{addrText(p.Endpoint.Addr)}
		if name := podName(p); name != "bare" {
			words = append(words, name)
		}
	}
	for _, route := range p.Routes {
		words = append(words, p.ProfileRef.GetResource().GetNamespace()+"/"+route.MetricsLabels["route"])
	}
	if p.OpaqueProtocol {
		words = append(words, "*")
	}
	return strings.Join(words, " ")
}

func serviceProfileYAML(namespace, route string) string {
	return "kind: ServiceProfile\nmetadata: {namespace: " + namespace + ", name: name1.ns.svc.cluster.local}\nspec: {routes: [{name: " + route + ", condition: {pathRegex: /}}]}\n"
}

func badProfileYAML(namespace string) string {
	return "kind: ServiceProfile\nmetadata: {namespace: " + namespace + ", name: name1.ns.svc.cluster.local}\nspec: {routes: [{name: r, condition: {}}]}\n"
}

func beingDeleted(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func notRunning(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func onHost(ip string, ports ...corev1.ContainerPort) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.HostIP, pod.Status.HostIPs = ip, []corev1.HostIP{{IP: ip}}
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, ports...)
	}
}

var hostPort7777 = corev1.ContainerPort{Name: "pub", ContainerPort: 8080, HostPort: 7777}

func inHostNetwork(pod *corev1.Pod) { pod.Spec.HostNetwork = true }

const (
	name1Name = "name1.ns.svc.cluster.local"
	pod1At    = "10.0.0.12:8989"
)

// TestProfileStreams plays what happens to open streams.
func TestProfileStreams(t *testing.T) {
	opaque := "config.linkerd.io/opaque-ports"
	clusterIP := serviceYAML("name1", "{name: http, port: 8989, nodePort: 30080}") + "  type: LoadBalancer\n  clusterIP: 10.1.0.1\n  externalIPs: [10.1.0.9]\nstatus: {loadBalancer: {ingress: [{ip: 10.1.0.8}]}}\n"
	sts := []string{
		"kind: Service\nmetadata: {namespace: ns, name: sts}\nspec: {clusterIP: None, ports: [{port: 8989}]}\n",
		sliceOf("sts", "a", "IPv4", "[{name: '', port: 8989}]", "10.0.0.12 name1-1, hostname: pod-0, conditions: {ready: false}"),
	}
	instance := "pod-0.sts.ns.svc.cluster.local:8989"
	for _, sc := range []scenario{
		{name: "D104 Pods do not speak for their Service", path: "name1.ns.svc.cluster.local:4242",
			before: withWeb(podYAML("name1-1", "10.0.0.12", annotated(opaque, "4242")), sliceYAML("a", 8989, "10.0.0.12 name1-1")),
			steps:  []step{{want: []string{name1Name}}, {apply: []string{podYAML("name1-1", "10.0.0.12", annotated(opaque, "4243"))}}}},
		{name: "D95, D97, D98 updates", path: "name1.ns.svc.cluster.local:8989", token: `{"ns":"ns"}`, before: withWeb(serviceProfileYAML("ns", "r1")), steps: []step{
			{want: []string{name1Name + " ns/r1"}},
			{apply: []string{serviceProfileYAML("ns", "r2")}, want: []string{name1Name + " ns/r2"}},
			{remove: []string{"ServiceProfile/ns/" + name1Name}, want: []string{name1Name}},
		}},
		{name: "D112 a bad ServiceProfile of the client comes and goes", path: name1, token: `{"ns":"client"}`, before: withWeb(serviceProfileYAML("ns", "r1")), steps: []step{
			{want: []string{name1Name + " ns/r1"}},
			{apply: []string{badProfileYAML("client")}},
			{apply: []string{strings.Replace(web[0], "name: name1}", "name: name1, annotations: {"+opaque+": '8989'}}", 1)}},
			{remove: []string{"ServiceProfile/client/" + name1Name}, want: []string{name1Name + " ns/r1 *"}},
			{apply: []string{badProfileYAML("client")}},
			{remove: []string{"ServiceProfile/client/" + name1Name}, want: []string{name1Name + " ns/r1 *"}},
			{apply: []string{badProfileYAML("ns")}},
			{remove: []string{"ServiceProfile/ns/" + name1Name}, want: []string{name1Name + " *"}},
		}},
		{name: "D106 an edit for other ports repeats the profile", path: "name1.ns.svc.cluster.local:8989", before: web, steps: []step{
			{want: []string{name1Name}},
			{apply: []string{strings.Replace(web[0], "name: name1}", "name: name1, annotations: {"+opaque+": '1,2'}}", 1)}, want: []string{name1Name}},
			{apply: []string{strings.Replace(web[0], "name: name1}", "name: name1, annotations: {"+opaque+": '8989'}}", 1)}, want: []string{name1Name + " *"}},
			{remove: []string{"Service/ns/name1"}, want: []string{name1Name}},
		}},
		{name: "D123 the proxy's admin port, declared by an init container", path: "10.0.0.12:4191",
			before: []string{podYAML("name1-1", "10.0.0.12", sidecarWithAdminPort, notRunning(corev1.PodPending))},
			steps: []step{
				{want: []string{"10.0.0.12:4191"}},
				{apply: []string{podYAML("name1-1", "10.0.0.12", sidecarWithAdminPort)}, want: []string{"10.0.0.12:4191 name1-1"}},
			}},
		{name: "D137, D 2.4 equal profiles are sent once", path: pod1At, before: web, steps: []step{
			{want: []string{pod1At + " name1-1"}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", annotated("example.org/note", "x"))}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", withoutProxy)}},
			{apply: []string{podYAML("name1-1", "10.0.0.12")}},
		}},
		{name: "D135 a conflict that arises later", path: pod1At, before: web, steps: []step{
			{want: []string{pod1At + " name1-1"}},
			{apply: []string{podYAML("a-twin", "10.0.0.12")}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", annotated(opaque, "8989"))}, want: []string{pod1At + " name1-1 *"}},
			{remove: []string{"Pod/ns/name1-1"}, want: []string{pod1At + " a-twin"}},
		}},
		{name: "D138 a port that the Pod does not declare", path: "10.0.0.12:9999", before: web, steps: []step{
			{want: []string{"10.0.0.12:9999 name1-1"}},
			{apply: []string{podYAML("name1-1", "10.0.0.12", notRunning(corev1.PodFailed))}, want: []string{"10.0.0.12:9999"}},
		}},
		{name: "D139 external IP", path: "10.1.0.9:8989", before: []string{clusterIP}, steps: []step{{want: []string{"10.1.0.9:8989"}}}},
		{name: "D139 load balancer", path: "10.1.0.8:3306", before: []string{clusterIP}, steps: []step{{want: []string{"10.1.0.8:3306 *"}}}},
		{name: "D139 node port", path: "192.0.2.10:30080", before: []string{clusterIP, podYAML("name1-1", "10.0.0.12", onHost("192.0.2.10"))}, steps: []step{{want: []string{"192.0.2.10:30080"}}}},
		{name: "D 2.1 a stream never changes its kind", path: "10.1.0.1:8989", steps: []step{
			{want: []string{"10.1.0.1:8989"}},
			{apply: []string{clusterIP}},
			{apply: []string{podYAML("name1-1", "10.1.0.1")}, want: []string{"10.1.0.1:8989 name1-1"}},
		}},
		{name: "D120 an instance", path: instance, before: append(withWeb(), sts...), steps: []step{{want: []string{pod1At + " name1-1"}}}},
		{name: "D120, D 2.4 an instance that is being deleted", path: instance, before: append([]string{podYAML("name1-1", "10.0.0.12", beingDeleted)}, sts...), steps: []step{
			{want: []string{pod1At + " name1-1"}},
			{apply: []string{podYAML("twin", "10.0.0.12")}},
			{remove: []string{"Pod/ns/name1-1"}, want: []string{pod1At + " twin"}},
		}},
		{name: "D120 in the host's network", path: instance, before: append([]string{podYAML("name1-1", "10.0.0.12", inHostNetwork)}, sts...), steps: []step{
			{want: []string{pod1At + " name1-1"}},
			{apply: []string{serverYAML("s", "{}", "8989", "opaque")}, want: []string{pod1At + " name1-1 *"}},
			{remove: []string{"Pod/ns/name1-1"}, want: []string{pod1At}},
		}},
		{name: "D120 whoever else has the address", path: instance,
			before: append(withWeb(podYAML("twin", "10.0.0.12"), serviceYAML("odd", "{port: 8989}")+"  clusterIP: 10.0.0.12\n"), sts...),
			steps:  []step{{want: []string{pod1At + " name1-1"}}}},
		{name: "D 2.4 an instance without address yet", path: instance, before: append([]string{podYAML("name1-1", "", notRunning(corev1.PodPending))}, sts...), steps: []step{{}}},
		{name: "D130, D 3.5 host port, Server by name and by number", path: "192.0.2.10:7777", before: []string{podYAML("name1-1", "10.0.0.12", onHost("192.0.2.10", hostPort7777))}, steps: []step{
			{want: []string{"192.0.2.10:7777 name1-1"}},
			{apply: []string{serverYAML("s", "{}", "pub", "opaque")}, want: []string{"192.0.2.10:7777 name1-1 *"}},
			{apply: []string{serverYAML("s", "{}", "8080", "opaque")}, want: []string{"192.0.2.10:7777 name1-1"}},
			{apply: []string{serverYAML("s", "{}", "7777", "opaque")}, want: []string{"192.0.2.10:7777 name1-1 *"}},
		}},
	} {
		rulebook.Run(t, sc.name, func(t *testing.T) {
			bubble(t, testConfig(), func(t *testing.T, c *cluster) {
				c.apply(sc.before...)
				s := c.profile(sc.path, sc.token)
				sc.play(t, c, s.want, func() {})
				if status, ended := s.Status(); ended {
					t.Errorf("the call has ended: %v", status)
				}
			})
		})
	}
}

// sidecarWithAdminPort makes the proxy an init container that declares its admin port.
func sidecarWithAdminPort(pod *corev1.Pod) {
	proxy := pod.Spec.Containers[1]
	proxy.Ports = []corev1.ContainerPort{{Name: "linkerd-admin", ContainerPort: 4191}}
	pod.Spec.InitContainers, pod.Spec.Containers = []corev1.Container{proxy}, pod.Spec.Containers[:1]
}

// D 2.4: a Pod in the place of one that looked the same stays until it is gone, too.
func TestSuccessorThatIsBeingDeleted(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		s := c.profile(pod1At)
		s.want(pod1At + " name1-1")
		c.objects.Remove("Pod/ns/name1-1")
		c.apply(podYAML("name1-1", "10.0.0.12"))
		c.apply(podYAML("name1-1", "10.0.0.12", beingDeleted))
		s.want()
		c.remove("Pod/ns/name1-1")
		s.want(pod1At)
	})
}

// A stream that opens while a bad ServiceProfile is in force hears
// nothing, whatever other streams have been sent before.
func TestBadProfileIsSilentForNewStreams(t *testing.T) {
	rulebook.Covers(t, "D112")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		c.apply(serviceProfileYAML("ns", "good"))
		old := c.profile(name1)
		old.want(name1Name + " ns/good")
		c.apply(badProfileYAML("ns"))
		fresh := c.profile(name1)
		old.want()
		fresh.want()
		c.apply(serviceProfileYAML("ns", "better"))
		old.want(name1Name + " ns/better")
		fresh.want(name1Name + " ns/better")
	})
}

// The first message is the right one, each time, from a cold start.
func TestFirstProfileIsRight(t *testing.T) {
	rulebook.Covers(t, "B37")
	for _, test := range []struct{ name, namespaces, want string }{
		{"both", "client ns", name1Name + " client/r"},
		{"the Service's", "ns", name1Name + " ns/r"},
		{"neither", "", name1Name},
	} {
		rulebook.Run(t, "B37 "+test.name, func(t *testing.T) {
			bubble(t, testConfig(), func(t *testing.T, c *cluster) {
				c.base()
				for _, namespace := range strings.Fields(test.namespaces) {
					c.apply(serviceProfileYAML(namespace, "r"))
				}
				for range 200 {
					s := c.profile(name1, `{"ns":"client"}`)
					s.want(test.want)
					s.Cancel()
					c.settle()
				}
			})
		})
	}
}

// What versions after 2.20 answer, if that is wanted (D 2.5).
func TestStrictProfiles(t *testing.T) {
	config := testConfig()
	config.StrictProfiles = true
	for _, test := range []struct {
		name, path string
		want       []string
		code       codes.Code
		message    string
	}{
		{name: "D92 defined port", path: name1, want: []string{name1Name}},
		{name: "D99 clusterIP", path: "10.1.0.1:8989", want: []string{name1Name}},
		{name: "D102 undefined port", path: "name1.ns.svc.cluster.local:1", want: []string{""}},
		{name: "D102 undefined port of a clusterIP", path: "10.1.0.1:1", want: []string{""}},
		{name: "D101 no such Service", path: "none.ns.svc.cluster.local:80", code: codes.Unknown, message: `service "none" not found`},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			bubble(t, config, func(t *testing.T, c *cluster) {
				c.base()
				s := c.profile(test.path)
				if test.code == codes.OK && test.want[0] == "" {
					if got := s.Take(); len(got) != 1 || !proto.Equal(got[0], &pb.DestinationProfile{}) {
						t.Errorf("got %v, want one empty profile", got)
					}
				} else {
					s.want(test.want...)
				}
				got, ended := s.Status()
				if ended != (test.code != codes.OK) || got.Code() != test.code || got.Message() != test.message {
					t.Errorf("ended %v with %v %q, want %v %q", ended, got.Code(), got.Message(), test.code, test.message)
				}
			})
		})
	}
}

// Streams of strict profiles follow the Service: its ports, and that it is there.
func TestStrictProfilesFollow(t *testing.T) {
	rulebook.Covers(t, "D101, D102, D106")
	config := testConfig()
	config.StrictProfiles = true
	withPort := func(port string) string { return serviceYAML("name1", "{port: "+port+"}") }
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.base()
		s, undefined := c.profile(name1), c.profile("name1.ns.svc.cluster.local:1")
		s.want(name1Name)
		undefined.want("")
		c.apply(withPort("1"))
		s.want("")
		undefined.want(name1Name)
		c.apply(withPort("8989"))
		s.want(name1Name)
		undefined.want("")
		c.remove("Service/ns/name1")
		for _, stream := range []profileStream{s, undefined} {
			stream.want()
			if end := stream.End(); end != "OK" {
				t.Errorf("the Service is gone, and the stream ends with %q", end)
			}
		}
		if end := c.profile(name1).End(); end != `Unknown service "name1" not found` {
			t.Errorf("a new stream ends with %q", end)
		}
	})
}

// Instances by Endpoints instead of slices (D 1.8, D 2.2).
func TestInstancesInEndpointsMode(t *testing.T) {
	config := testConfig()
	config.EnableEndpointSlices, config.EnableIPv6 = false, false
	endpoints := "kind: Endpoints\nmetadata: {namespace: ns, name: sts}\nsubsets:\n" +
		"- {addresses: [{ip: 10.0.0.12, hostname: pod-0, targetRef: {kind: Pod, namespace: ns, name: name1-1}}, {ip: 10.0.0.14, hostname: vm-0},\n" +
		"    {ip: 10.0.0.15, hostname: lost, targetRef: {kind: Pod, namespace: ns, name: lost}}],\n" +
		"   notReadyAddresses: [{ip: 10.0.0.13, hostname: pod-1, targetRef: {kind: Pod, namespace: ns, name: name1-2}}], ports: [{port: 8989}]}\n"
	for _, test := range []struct{ name, path, want, code, message string }{
		{name: "D120 ready", path: "pod-0.sts", want: pod1At + " name1-1"},
		{name: "D120, B25 not ready", path: "pod-1.sts", want: "10.0.0.13:8989 name1-2"},
		{name: "D121", path: "zzz.sts", code: "NotFound", message: "no pod found in Endpoints ns/sts for hostname zzz"},
		{name: "D122", path: "vm-0.sts", code: "NotFound", message: "no pod found in Endpoints ns/sts for hostname vm-0"},
		{name: "D 2.2 no Endpoints", path: "pod-0.none", code: "Unknown", message: `endpoints "none" not found`},
		{name: "D 2.2 pod not known", path: "lost.sts", code: "Unknown", message: `pod "lost" not found`},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			bubble(t, config, func(t *testing.T, c *cluster) {
				c.apply(withWeb(podYAML("name1-2", "10.0.0.13"), endpoints)...)
				s := c.profile(test.path + ".ns.svc.cluster.local:8989")
				if test.want != "" {
					s.want(test.want)
					return
				}
				s.want()
				if got, ended := s.Status(); !ended || got.Code().String() != test.code || got.Message() != test.message {
					t.Errorf("ended %v with %v %q, want %s %q", ended, got.Code(), got.Message(), test.code, test.message)
				}
			})
		})
	}
}

// D 2.4: a call whose instance has no address ends like any other.
func TestIdleProfileStreamsStop(t *testing.T) {
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(podYAML("p", "", notRunning(corev1.PodPending)), sliceOf("sts", "a", "IPv4", "[{name: '', port: 8989}]", "10.0.0.12 p, hostname: p"))
		s := c.profile("p.sts.ns.svc.cluster.local:8989")
		close(c.stopping)
		time.Sleep(time.Second) // in the bubble's time
		if got, ended := s.Status(); !ended || got.Code() != codes.OK {
			t.Errorf("ended %v with %v, want OK", ended, got)
		}
	})
}

// D 4.1: the series of profiles, and that they end with the last stream (B19).
func TestProfileMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	config := testConfig()
	config.Registerer = registry
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.base()
		one, two, pod := c.profile(name1, `{"ns":"client"}`), c.profile(name1), c.profile(pod1At)
		c.apply(serviceProfileYAML("ns", "a"), serviceProfileYAML("client", "b"))
		c.apply(serviceProfileYAML("ns", "c"), podYAML("name1-1", "10.0.0.12", annotated("config.linkerd.io/opaque-ports", "8989")))
		c.remove("ServiceProfile/client/" + name1Name)
		series := func(name, namespace string) string {
			return name + " namespace=" + namespace + " profile=" + name1Name
		}
		want := map[string]float64{
			series("profile_subscribers", "ns"): 2, series("profile_subscribers", "client"): 1,
			series("profile_updates", "ns"): 2, series("profile_updates", "client"): 2,
			"service_subscribers name=name1 namespace=ns": 2,
			"workload_subscribers ":                       1, "workload_updates ": 2,
		}
		got := gather(t, registry)
		for name, value := range want {
			if v, ok := got[name]; !ok || v != value {
				t.Errorf("%s = %v, want %v", name, v, value)
			}
		}
		for _, s := range []profileStream{one, two, pod} {
			s.Cancel()
		}
		c.settle()
		for name := range gather(t, registry) {
			if strings.HasPrefix(name, "profile_") || strings.HasPrefix(name, "service_") {
				t.Errorf("%s outlives its streams", name)
			}
		}
		if !c.server.nothingHeld() || c.graph.Size() != 0 {
			t.Errorf("something is still held: %v topics", c.graph.Size())
		}
	})
}

// Lookups of addresses that come and go leave nothing behind.
func TestShortProfilesLeaveNothing(t *testing.T) {
	rulebook.Covers(t, "B19")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(serverYAML("s", "{matchLabels: {app: web}}", "http", "opaque"))
		for i := range 10000 {
			ip := fmt.Sprintf("10.0.%d.%d", i%4, 1+i%200)
			if i%10 == 0 {
				c.put(podYAML("churn", ip))
			}
			s := c.profile(ip + ":8989")
			if i%100 == 0 {
				s.want(ip + ":8989 churn *")
			}
			s.Cancel()
		}
		c.settle()
		if !c.server.nothingHeld() || c.graph.Size() != 0 {
			t.Errorf("something is still held: %v topics", c.graph.Size())
		}
	})
}
