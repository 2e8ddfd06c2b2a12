package destination

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// profileBench is a Server over a State that a test fills, with one stream at most.
type profileBench struct {
	t      *testing.T
	st     *state.State
	g      *view.Graph
	server *Server
}

func newProfileBench(t *testing.T, change ...func(*Config)) *profileBench {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: append(state.LocalKinds(true), &state.Endpoints.KindInfo)})
	if err != nil {
		t.Fatal(err)
	}
	b := &profileBench{t: t, st: st, g: view.NewGraph(st)}
	config := defaultConfig()
	config.OutboundTransportMode = linkerd.TransportTransparent
	config.MeshedHTTP2ClientParams = ""
	config.DefaultOpaquePorts = linkerd.MustParsePortList("25,443,587,3306,5432,11211")
	config.State, config.Graph, config.Log = st, b.g, slog.New(slog.DiscardHandler)
	for _, c := range change {
		c(&config)
	}
	if b.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	return b
}

// object reads YAML into a new T.
func object[T any](t testing.TB, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func (b *profileBench) pod(text string) {
	b.t.Helper()
	state.Put(b.st, state.Pods, object[corev1.Pod](b.t, text))
}

func (b *profileBench) workload(text string) {
	b.t.Helper()
	state.Put(b.st, state.ExternalWorkloads, object[workloadv1beta1.ExternalWorkload](b.t, text))
}

func (b *profileBench) policyServer(text string) {
	b.t.Helper()
	state.Put(b.st, state.Servers, object[policyv1beta3.Server](b.t, text))
}

// recorder is a stream that keeps what is sent on it and has ended as soon as it would wait.
type recorder struct {
	grpc.ServerStream
	ctx  context.Context
	sent []*pb.DestinationProfile
}

func (r *recorder) Context() context.Context                  { return r.ctx }
func (r *recorder) Send(profile *pb.DestinationProfile) error { return r.SendMsg(profile) }

func (r *recorder) SendMsg(m any) error {
	profile := &pb.DestinationProfile{}
	if err := proto.Unmarshal(m.(*grpcserver.Encoded).Bytes(), profile); err != nil {
		return err
	}
	r.sent = append(r.sent, profile)
	return nil
}

// call returns what a call gets before it would wait for changes.
func (b *profileBench) call(path, token string) ([]*pb.DestinationProfile, error) {
	b.t.Helper()
	b.g.Flush()
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	stream := &recorder{ctx: ctx}
	err := b.server.GetProfile(&pb.GetDestination{Path: path, ContextToken: token}, stream)
	return stream.sent, err
}

// one is the only message of a call.
func (b *profileBench) one(path string) *pb.DestinationProfile {
	b.t.Helper()
	sent, err := b.call(path, "")
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	if len(sent) != 1 {
		b.t.Fatalf("%s: %d messages, want 1", path, len(sent))
	}
	return sent[0]
}

const meshedPod = `
metadata: {namespace: ns, name: name1-1, uid: u1, resourceVersion: "1", labels: {linkerd.io/control-plane-ns: linkerd}}
spec:
  containers:
  - {name: app, ports: [{name: http, containerPort: 8989}, {name: db, containerPort: 3306}, {name: pub, containerPort: 8080, hostPort: 7777}]}
  - name: linkerd-proxy
    env:
    - {name: LINKERD2_PROXY_INBOUND_LISTEN_ADDR, value: "0.0.0.0:4143"}
    - {name: LINKERD2_PROXY_ADMIN_LISTEN_ADDR, value: "0.0.0.0:4191"}
    - {name: LINKERD2_PROXY_CONTROL_LISTEN_ADDR, value: "0.0.0.0:4190"}
status: {phase: Running, podIP: 10.0.0.12, podIPs: [{ip: 10.0.0.12}, {ip: "2001:db8::12"}], hostIP: 192.0.2.10}
`

// varied replaces parts of a text, pair by pair.
func varied(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

const identityOfDefault = `{"dnsLikeIdentity": {"name": "default.ns.serviceaccount.identity.linkerd.cluster.local"}, "serverName": {"name": "default.ns.serviceaccount.identity.linkerd.cluster.local"}}`

// weightedPod is the JSON of the endpoint of name1-1 with a hint.
func weightedPod(addr, hint string) string {
	return `{"addr": ` + addr + `, "weight": 10000, "protocolHint": ` + hint + `, "tlsIdentity": ` + identityOfDefault + `,
		"metricLabels": {"pod": "name1-1", "serviceaccount": "default", "control_plane_ns": "linkerd", "zone": "", "namespace": "ns"}}`
}

func v4(number, port string) string { return `{"ip": {"ipv4": ` + number + `}, "port": ` + port + `}` }

// expectEndpoint compares an endpoint profile with JSON of its endpoint.
func expectEndpoint(t *testing.T, rule string, got *pb.DestinationProfile, endpoint string, opaque bool) {
	t.Helper()
	want := &pb.DestinationProfile{}
	text := `{"retryBudget": {"retryRatio": 0.2, "minRetriesPerSecond": 10, "ttl": "10s"}, "endpoint": ` + endpoint + `}`
	if err := protojson.Unmarshal([]byte(text), want); err != nil {
		t.Fatal(err)
	}
	want.OpaqueProtocol = opaque
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", rule, diff)
	}
}

const (
	ip12   = "167772172"  // 10.0.0.12
	ip99   = "167772259"  // 10.0.0.99
	ipHost = "3221225994" // 192.0.2.10
	ipVM   = "3221226034" // 192.0.2.50
)

func TestEndpointProfiles(t *testing.T) {
	h2 := `{"h2": {}}`
	opaqueHint := `{"opaque": {}, "opaqueTransport": {"inboundPort": 4143}}`
	bare := func(ip, port string) string { return `{"addr": ` + v4(ip, port) + `, "weight": 10000}` }
	for _, test := range []struct {
		name     string
		pod      string
		server   string
		path     string
		endpoint string
		opaque   bool
	}{
		{"D118", meshedPod, "", "10.0.0.12:8989", weightedPod(v4(ip12, "8989"), h2), false},
		{"D 2.1 IPv4-mapped address", meshedPod, "", "[::ffff:10.0.0.12]:8989", weightedPod(v4(ip12, "8989"), h2), false},
		{"D119 secondary address", meshedPod, "", "[2001:db8::12]:8989",
			weightedPod(`{"ip": {"ipv6": {"first": "2306139568115548160", "last": "18"}}, "port": 8989}`, h2), false},
		{"D119 another spelling of the address", varied(meshedPod, "2001:db8::12", "2001:DB8:0:0::12"), "", "[2001:db8:0::0:12]:8989",
			weightedPod(`{"ip": {"ipv6": {"first": "2306139568115548160", "last": "18"}}, "port": 8989}`, h2), false},
		{"D123 pending pod", varied(meshedPod, "Running", "Pending"), "", "10.0.0.12:4191", bare(ip12, "4191"), false},
		{"D124, B25 not ready", meshedPod + "  ", "", "10.0.0.12:8989", weightedPod(v4(ip12, "8989"), h2), false},
		{"D125 unknown address", meshedPod, "", "10.0.0.99:80", bare(ip99, "80"), false},
		{"D125 unknown address, default opaque port", meshedPod, "", "10.0.0.99:3306", bare(ip99, "3306"), true},
		{"D126, B28 unmeshed", varied(meshedPod, "labels: {linkerd.io/control-plane-ns: linkerd}", "labels: {}"), "", "10.0.0.12:3306",
			`{"addr": ` + v4(ip12, "3306") + `, "weight": 10000, "metricLabels": {"pod": "name1-1", "serviceaccount": "default", "zone": "", "namespace": "ns"}}`, true},
		{"D127 annotated", varied(meshedPod, "uid: u1", `uid: u1, annotations: {config.linkerd.io/opaque-ports: "4242"}`), "", "10.0.0.12:4242",
			weightedPod(v4(ip12, "4242"), opaqueHint), true},
		{"D128 skipped", varied(meshedPod, "uid: u1", `uid: u1, annotations: {config.linkerd.io/skip-inbound-ports: "8989"}`), "", "10.0.0.12:8989",
			`{"addr": ` + v4(ip12, "8989") + `, "weight": 10000, "metricLabels": {"pod": "name1-1", "serviceaccount": "default", "control_plane_ns": "linkerd", "zone": "", "namespace": "ns"}}`, false},
		{"D129 Server", meshedPod, `{metadata: {namespace: ns, name: s}, spec: {podSelector: {}, port: 80, proxyProtocol: opaque}}`, "10.0.0.12:80",
			weightedPod(v4(ip12, "80"), opaqueHint), true},
		{"B33 Server of another namespace", meshedPod, `{metadata: {namespace: other, name: s}, spec: {podSelector: {}, port: 80, proxyProtocol: opaque}}`, "10.0.0.12:80",
			weightedPod(v4(ip12, "80"), h2), false},
		{"D130 host port", meshedPod, "", "192.0.2.10:7777", weightedPod(v4(ipHost, "7777"), h2), false},
		{"D 2.1 host port of an init container", varied(meshedPod, "spec:", "spec:\n  initContainers: [{name: i, ports: [{containerPort: 1, hostPort: 7778}]}]"), "", "192.0.2.10:7778", weightedPod(v4(ipHost, "7778"), h2), false},
		{"D 2.1 host port, second address of the host", varied(meshedPod, "hostIP: 192.0.2.10", `hostIP: 192.0.2.10, hostIPs: [{ip: 192.0.2.10}, {ip: "2001:db8::12"}]`, `, {ip: "2001:db8::12"}]`, "]"), "", "[2001:db8::12]:7777",
			weightedPod(`{"ip": {"ipv6": {"first": "2306139568115548160", "last": "18"}}, "port": 7777}`, h2), false},
		{"D130 host port, Server by name", meshedPod, `{metadata: {namespace: ns, name: s}, spec: {podSelector: {}, port: pub, proxyProtocol: opaque}}`, "192.0.2.10:7777",
			weightedPod(v4(ipHost, "7777"), opaqueHint), true},
		{"D 2.1 host network has no pod IP", varied(meshedPod, "spec:", "spec:\n  hostNetwork: true"), "", "10.0.0.12:8989", bare(ip12, "8989"), false},
		{"D136 finished pod", varied(meshedPod, "Running", "Succeeded"), "", "10.0.0.12:8989", bare(ip12, "8989"), false},
		{"D136 terminating pod", varied(meshedPod, "uid: u1", `uid: u1, deletionTimestamp: "2026-01-01T00:00:00Z"`), "", "10.0.0.12:8989", bare(ip12, "8989"), false},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			b := newProfileBench(t)
			b.pod(test.pod)
			if test.server != "" {
				b.policyServer(test.server)
			}
			expectEndpoint(t, test.name, b.one(test.path), test.endpoint, test.opaque)
		})
	}
}

const vm1 = `
metadata: {namespace: ns, name: vm-1, uid: v1, resourceVersion: "1", labels: {app: vm}, ownerReferences: [{apiVersion: x/v1, kind: WorkloadGroup, name: wg, uid: w}]}
spec:
  meshTLS: {identity: "spiffe://td/vm", serverName: vm.td}
  workloadIPs: [{ip: 192.0.2.50}]
  ports: [{name: http, port: 80}, {name: other, port: 8080}]
`

// weightedVM is the JSON of the endpoint of vm-1.
func weightedVM(port, hint string) string {
	return `{"addr": ` + v4(ipVM, port) + `, "weight": 10000, "protocolHint": ` + hint + `,
		"tlsIdentity": {"uriLikeIdentity": {"uri": "spiffe://td/vm"}, "serverName": {"name": "vm.td"}},
		"metricLabels": {"external_workload": "vm-1", "WorkloadGroup": "wg", "zone": "", "namespace": "ns"}}`
}

func TestExternalWorkloadProfiles(t *testing.T) {
	b := newProfileBench(t)
	b.workload(vm1)
	expectEndpoint(t, "D131 declared port", b.one("192.0.2.50:80"), weightedVM("80", `{"h2": {}}`), false)
	expectEndpoint(t, "D131 undeclared port", b.one("192.0.2.50:81"), `{"addr": `+v4(ipVM, "81")+`, "weight": 10000}`, false)
	opaqueHint := `{"opaque": {}, "opaqueTransport": {"inboundPort": 4143}}`
	b.policyServer(`{metadata: {namespace: ns, name: bad}, spec: {externalWorkloadSelector: {matchExpressions: [{key: a, operator: In}]}, port: 80, proxyProtocol: opaque}}`)
	b.policyServer(`{metadata: {namespace: ns, name: s}, spec: {externalWorkloadSelector: {}, port: http, proxyProtocol: opaque}}`)
	expectEndpoint(t, "D132 Server", b.one("192.0.2.50:80"), weightedVM("80", opaqueHint), true)
	b.workload(varied(vm1, `resourceVersion: "1"`, `resourceVersion: "2", annotations: {config.linkerd.io/opaque-ports: "8080"}`))
	expectEndpoint(t, "D132 annotation", b.one("192.0.2.50:8080"), weightedVM("8080", opaqueHint), true)
}

// watched is a live endpoint profile.
type watched struct {
	b    *profileBench
	view *view.View[endpointKey, endpointProfile]
	seen uint64
}

func (b *profileBench) watch(path string) *watched {
	b.t.Helper()
	v := b.server.profiles.endpoints.Acquire(endpointKey{addr: netip.MustParseAddrPort(path)})
	b.t.Cleanup(v.Release)
	return &watched{b: b, view: v}
}

// next is what the stream gets since the last call, nil for nothing.
func (w *watched) next() *pb.DestinationProfile {
	w.b.t.Helper()
	w.b.g.Flush()
	current := w.view.Current()
	if current.Number == w.seen || current.Value.message == nil {
		w.seen = current.Number
		return nil
	}
	w.seen = current.Number
	profile := &pb.DestinationProfile{}
	if err := proto.Unmarshal(current.Value.message.Bytes(), profile); err != nil {
		w.b.t.Fatal(err)
	}
	return profile
}

// podName is the pod of a profile's endpoint: "bare" without one, "nothing" without a profile.
func podName(p *pb.DestinationProfile) string {
	if p == nil {
		return "nothing"
	}
	for _, label := range []string{"pod", "external_workload"} {
		if name := p.Endpoint.MetricLabels[label]; name != "" {
			return name
		}
	}
	return "bare"
}

func TestEndpointProfileUpdates(t *testing.T) {
	rulebook.Covers(t, "D134")
	expect := func(t *testing.T, rule string, w *watched, want string) *pb.DestinationProfile {
		t.Helper()
		got := w.next()
		if podName(got) != want {
			t.Errorf("%s: %s, want %s", rule, podName(got), want)
		}
		return got
	}
	rulebook.Run(t, "D123", func(t *testing.T) {
		b := newProfileBench(t)
		b.pod(varied(meshedPod, "Running", "Pending"))
		w := b.watch("10.0.0.12:8989")
		expect(t, "pending", w, "bare")
		b.pod(varied(meshedPod, `"1"`, `"2"`))
		expect(t, "running", w, "name1-1")
		b.pod(varied(meshedPod, `"1"`, `"3"`, "uid: u1", `uid: u1, annotations: {x: y}`))
		expect(t, "D137 what does not show", w, "nothing")
		b.pod(varied(meshedPod, `"1"`, `"4"`, "uid: u1", `uid: u1, deletionTimestamp: "2026-01-01T00:00:00Z"`))
		expect(t, "D 2.4 being deleted", w, "nothing")
		state.Remove(b.st, state.Pods, "ns", "name1-1")
		expect(t, "deleted", w, "bare")
	})
	rulebook.Run(t, "D130, B27", func(t *testing.T) {
		b := newProfileBench(t)
		b.pod(meshedPod)
		w := b.watch("192.0.2.10:7777")
		expect(t, "first pod", w, "name1-1")
		state.Remove(b.st, state.Pods, "ns", "name1-1")
		expect(t, "deleted", w, "bare")
		b.pod(varied(meshedPod, "name1-1", "twin", "u1", "u2"))
		twin := expect(t, "twin", w, "twin")
		if twin != nil && twin.Endpoint.Addr.Port != 7777 {
			t.Errorf("port %d, want 7777", twin.Endpoint.Addr.Port)
		}
		b.policyServer(`{metadata: {namespace: ns, name: s}, spec: {podSelector: {}, port: pub, proxyProtocol: opaque}}`)
		if got := expect(t, "Server", w, "twin"); got != nil && !got.OpaqueProtocol {
			t.Error("the Server's port is not opaque")
		}
		state.Remove(b.st, state.Servers, "ns", "s")
		if got := expect(t, "D134", w, "twin"); got != nil && got.OpaqueProtocol {
			t.Error("still opaque without the Server")
		}
	})
	rulebook.Run(t, "D133, B35", func(t *testing.T) {
		b := newProfileBench(t)
		b.workload(vm1)
		b.policyServer(`{metadata: {namespace: ns, name: bad}, spec: {externalWorkloadSelector: {matchExpressions: [{key: a, operator: In}]}, port: 80, proxyProtocol: opaque}}`)
		w := b.watch("192.0.2.50:80")
		expect(t, "there", w, "vm-1")
		state.Remove(b.st, state.ExternalWorkloads, "ns", "vm-1")
		expect(t, "deleted", w, "bare")
	})
	t.Run("D 2.4 proxy container missing", func(t *testing.T) {
		b := newProfileBench(t)
		b.pod(varied(meshedPod, "linkerd-proxy", "other"))
		expect(t, "silence", b.watch("10.0.0.12:8989"), "nothing")
	})
}

func TestGetProfileErrors(t *testing.T) {
	b := newProfileBench(t)
	b.pod(meshedPod)
	b.pod(varied(meshedPod, "name1-1", "name1-2", "u1", "u2"))
	service := func(name, text string) {
		s := object[corev1.Service](t, text)
		s.Namespace, s.Name = "ns", name
		state.Put(b.st, state.Services, s)
	}
	service("one", `{spec: {clusterIP: 10.1.0.1, clusterIPs: [10.1.0.1, "fd00::1"]}}`)
	service("two", `{spec: {clusterIP: 10.1.0.1}}`)
	service("ext", `{spec: {type: ExternalName, externalName: example.org}}`)
	b.workload(vm1)
	b.workload(varied(vm1, "vm-1", "vm-2"))
	ready := true
	state.Put(b.st, state.EndpointSlices, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sts-a", Labels: map[string]string{discoveryv1.LabelServiceName: "sts"}},
		Endpoints: []discoveryv1.Endpoint{
			{Hostname: new("vm-0"), Addresses: []string{"10.0.0.14"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			{Hostname: new("lost"), Addresses: []string{"10.0.0.15"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "lost"}},
			{Hostname: new("vm-1"), Addresses: []string{"192.0.2.50"}, TargetRef: &corev1.ObjectReference{Kind: "ExternalWorkload", Namespace: "ns", Name: "vm-1"}},
			{Addresses: []string{"10.0.0.16"}},
		},
	})
	for _, test := range []struct{ name, path, want string }{
		{"D 2.2 port", "web.ns.svc.cluster.local:http", `InvalidArgument: invalid authority: "web.ns.svc.cluster.local:http": "invalid port http: strconv.Atoi: parsing \"http\": invalid syntax"`},
		{"D 2.2 port zero", "web.ns.svc.cluster.local:0", `InvalidArgument: invalid authority: "web.ns.svc.cluster.local:0": "invalid port 0"`},
		{"D 2.2 address without brackets", "2001:db8::88", `InvalidArgument: invalid authority: "2001:db8::88": "invalid destination: address 2001:db8::88: too many colons in address"`},
		{"D110", "linkerd.io", `InvalidArgument: invalid service "linkerd.io": "name linkerd.io does not match cluster domain cluster.local"`},
		{"D 2.2 label count", "svc.cluster.local", `InvalidArgument: invalid service "svc.cluster.local": "invalid k8s service svc.cluster.local"`},
		{"D109, B23", "ext.ns.svc.cluster.local:80", `InvalidArgument: Invalid authority: ext.ns.svc.cluster.local:80`},
		{"D111", "10.1.0.1:80", `FailedPrecondition: found 2 services with conflicting cluster IP 10.1.0.1`},
		{"D135", "10.0.0.12:8989", `FailedPrecondition: found 2 pods with a conflicting pod network IP 10.0.0.12`},
		{"D 2.2 host port", "192.0.2.10:7777", `FailedPrecondition: found 2 pods with a conflicting host network endpoint 192.0.2.10:7777`},
		{"D 2.2 workloads", "192.0.2.50:80", `FailedPrecondition: found 2 externalworkloads with a conflicting ip 192.0.2.50:80`},
		{"D121", "zzz.sts.ns.svc.cluster.local:80", `NotFound: no pod found in EndpointSlices of Service ns/sts for hostname zzz`},
		{"D122, L07", "vm-0.sts.ns.svc.cluster.local:80", `NotFound: no pod found in EndpointSlices of Service ns/sts for hostname vm-0`},
		{"D122 ExternalWorkload", "vm-1.sts.ns.svc.cluster.local:80", `NotFound: no pod found in EndpointSlices of Service ns/sts for hostname vm-1`},
		{"B24", "10-244-0-11.web.ns.svc.cluster.local:80", `NotFound: no pod found in EndpointSlices of Service ns/web for hostname 10-244-0-11`},
		{"D 2.2 pod not known", "lost.sts.ns.svc.cluster.local:80", `Unknown: pod "lost" not found`},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			sent, err := b.call(test.path, "")
			s := status.Convert(err)
			if got := s.Code().String() + ": " + s.Message(); got != test.want || len(sent) != 0 {
				t.Errorf("got %s after %d messages, want %s", got, len(sent), test.want)
			}
		})
	}
}

func TestGetProfileByName(t *testing.T) {
	rulebook.Covers(t, "B19, D120")
	b := newProfileBench(t)
	b.pod(meshedPod)
	state.Put(b.st, state.Services, object[corev1.Service](t, `{metadata: {namespace: ns, name: web}, spec: {clusterIP: 10.1.0.1, clusterIPs: [10.1.0.1, "fd00::1"], ports: [{port: 8989}]}}`))
	state.Put(b.st, state.ServiceProfiles, profileOf(t, "ns", "1", `routes: [{name: route1, condition: {pathRegex: /a}}]`))
	state.Put(b.st, state.ServiceProfiles, profileOf(t, "client-ns", "2", `routes: [{name: route2, condition: {pathRegex: /a}}]`))
	state.Put(b.st, state.EndpointSlices, object[discoveryv1.EndpointSlice](t, `{metadata: {namespace: ns, name: a, labels: {kubernetes.io/service-name: web}}, addressType: IPv4,
		endpoints: [{hostname: pod-0, addresses: [10.0.0.12], conditions: {ready: false}, targetRef: {kind: Pod, namespace: ns, name: name1-1}}]}`))
	for _, test := range []struct{ name, path, token, want string }{
		{"D92", "web.ns.svc.cluster.local:8989", "", "ns/route1"},
		{"D93", "web.ns.svc.cluster.local:8989", `{"ns":"client-ns"}`, "client-ns/route2"},
		{"D94", "web.ns.svc.cluster.local:8989", "ns:other", "ns/route1"},
		{"D95", "web.ns.svc.cluster.local:8989", `{"ns":"ns"}`, "ns/route1"},
		{"D99", "10.1.0.1:8989", "", "ns/route1"},
		{"D99 secondary IP", "[fd00::1]:8989", `{"ns":"client-ns"}`, "client-ns/route2"},
		{"D102 port not on the Service", "web.ns.svc.cluster.local:1", "", "ns/route1"},
		{"D101 no such Service", "none.ns.svc.cluster.local:80", "", "default"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			sent, err := b.call(test.path, test.token)
			if err != nil || len(sent) != 1 {
				t.Fatalf("%d messages, error %v", len(sent), err)
			}
			if got := route(sent[0]); got != test.want {
				t.Errorf("route %s, want %s", got, test.want)
			}
			if !strings.HasSuffix(sent[0].FullyQualifiedName, ".ns.svc.cluster.local") {
				t.Errorf("full name %q", sent[0].FullyQualifiedName)
			}
		})
	}
	if got := podName(b.one("pod-0.web.ns.svc.cluster.local:8989")); got != "name1-1" {
		t.Errorf("%s", got)
	}
	if held, topics := b.server.profiles.services.Held()+b.server.profiles.endpoints.Held(), b.g.Size(); held != 0 || topics != 0 {
		t.Errorf("%d views and %d topics are left", held, topics)
	}
}
