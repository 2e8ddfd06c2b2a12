package destination

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// profileOf reads a ServiceProfile's spec; version and namespace make it one object.
func profileOf(t testing.TB, namespace, version, spec string) *linkerdv1alpha2.ServiceProfile {
	t.Helper()
	sp := &linkerdv1alpha2.ServiceProfile{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "web.ns.svc.cluster.local", ResourceVersion: version,
	}}
	if err := yaml.Unmarshal([]byte(spec), &sp.Spec); err != nil {
		t.Fatal(err)
	}
	return sp
}

func webTarget() profileTarget {
	return profileTarget{service: "web", namespace: "ns", fqn: "web.ns.svc.cluster.local", port: 80}
}

func TestTranslateProfile(t *testing.T) {
	// Each case names what differs from the profile of a Service without a ServiceProfile.
	for _, test := range []struct {
		name, spec string
		want       string
		warnings   int
	}{
		{name: "D113 timeout", spec: `routes: [{name: r, condition: {pathRegex: /}, timeout: 200ms}]`,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": "r"}, "timeout": "0.200s"}]}`},
		{name: "D113 timeout that does not parse", spec: `routes: [{name: r, condition: {pathRegex: /}, timeout: abc}]`, warnings: 1,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": "r"}}]}`},
		{name: "D 2.3 timeout of zero", spec: `routes: [{name: r, condition: {pathRegex: /}, timeout: 0s}]`,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": "r"}}]}`},
		{name: "D114 two fields", spec: `routes: [{name: r, condition: {method: GET, pathRegex: /my/path}}]`,
			want: `{"routes": [{"condition": {"all": {"matches": [{"method": {"registered": "GET"}}, {"path": {"regex": "/my/path"}}]}}, "metricsLabels": {"route": "r"}}]}`},
		{name: "D 2.3 all fields in order", spec: `routes: [{name: r, condition: {pathRegex: /p, not: {method: put}, method: purge, any: [{pathRegex: /a}], all: [{pathRegex: /b}]}}]`,
			want: `{"routes": [{"condition": {"all": {"matches": [{"all": {"matches": [{"path": {"regex": "/b"}}]}}, {"any": {"matches": [{"path": {"regex": "/a"}}]}},
				{"method": {"unregistered": "PURGE"}}, {"not": {"method": {"registered": "PUT"}}}, {"path": {"regex": "/p"}}]}}, "metricsLabels": {"route": "r"}}]}`},
		{name: "D115 response match", spec: `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{isFailure: true, condition: {status: {min: 400, max: 499}, not: {status: {min: 404}}}}]}]`,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": "r"}, "responseClasses": [{"isFailure": true, "condition":
				{"all": {"matches": [{"status": {"min": 400, "max": 499}}, {"not": {"status": {"min": 404}}}]}}}]}]}`},
		{name: "D116 one-sided status", spec: `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{condition: {status: {min: 200}}}]}]`,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": "r"}, "responseClasses": [{"condition": {"status": {"min": 200}}}]}]}`},
		{name: "D 2.3 status bounds", spec: `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{condition: {status: {min: 100, max: 599}}}]}]`,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": "r"}, "responseClasses": [{"condition": {"status": {"min": 100, "max": 599}}}]}]}`},
		{name: "D117 weights", spec: `dstOverrides: [{authority: a.ns.svc.cluster.local, weight: 500m}, {authority: "b.ns.svc.cluster.local:81", weight: "1"}, {authority: c, weight: 1k}, {authority: d, weight: "0.1"}]`,
			want: `{"dstOverrides": [{"authority": "a.ns.svc.cluster.local:80", "weight": 5000}, {"authority": "b.ns.svc.cluster.local:81", "weight": 10000},
				{"authority": "c:80", "weight": 10000000}, {"authority": "d:80", "weight": 1000}]}`},
		{name: "D 2.3 negative weight wraps", spec: `dstOverrides: [{authority: a, weight: "-1"}]`,
			want: `{"dstOverrides": [{"authority": "a:80", "weight": 4294957296}]}`},
		{name: "D 2.3 retry budget", spec: `retryBudget: {retryRatio: 0.5, minRetriesPerSecond: 5, ttl: 3s}`,
			want: `{"retryBudget": {"retryRatio": 0.5, "minRetriesPerSecond": 5, "ttl": "3s"}}`},
		{name: "D 2.3 ttl of zero", spec: `retryBudget: {retryRatio: 0.5, minRetriesPerSecond: 5, ttl: 0s}`,
			want: `{"retryBudget": {"retryRatio": 0.5, "minRetriesPerSecond": 5}}`},
		{name: "D 2.3 route without a name", spec: `routes: [{name: "", condition: {pathRegex: /}, isRetryable: true}]`,
			want: `{"routes": [{"condition": {"path": {"regex": "/"}}, "metricsLabels": {"route": ""}, "isRetryable": true}]}`},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			warnings := 0
			got, err := translateProfile(profileOf(t, "ns", "1", test.spec), webTarget(), false, func(error) { warnings++ })
			if err != nil {
				t.Fatal(err)
			}
			want := &destination.DestinationProfile{}
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			base, err := translateProfile(profileOf(t, "ns", "1", ""), webTarget(), false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want.RetryBudget != nil {
				base.RetryBudget = nil
			}
			proto.Merge(base, want)
			if diff := cmp.Diff(base, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if warnings != test.warnings {
				t.Errorf("%d warnings, want %d", warnings, test.warnings)
			}
		})
	}
}

func TestUnusableProfiles(t *testing.T) {
	for _, test := range []struct{ name, spec string }{
		{"D112 ttl", `retryBudget: {retryRatio: 0.1, minRetriesPerSecond: 1, ttl: bogus}`},
		{"D112 empty condition", `routes: [{name: r, condition: {}}]`},
		{"D112 no condition", `routes: [{name: r}]`},
		{"D112 status range", `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{condition: {status: {min: 201, max: 200}}}]}]`},
		{"D 2.3 status out of bounds", `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{condition: {status: {min: 99}}}]}]`},
		{"D 2.3 status beyond bounds", `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{condition: {status: {max: 600}}}]}]`},
		{"D 2.3 empty response condition", `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [{condition: {}}]}]`},
		{"D 2.3 null child", `routes: [{name: r, condition: {all: [null]}}]`},
		{"D 2.3 empty child", `routes: [{name: r, condition: {any: [{}]}}]`},
		{"B39 null route", `routes: [null]`},
		{"B39 null class", `routes: [{name: r, condition: {pathRegex: /}, responseClasses: [null]}]`},
		{"null override", `dstOverrides: [null]`},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			if got, err := translateProfile(profileOf(t, "ns", "1", test.spec), webTarget(), false, func(error) {}); err == nil {
				t.Errorf("translated to %v, want an error", got)
			}
		})
	}
}

// profileView is one view of web's profile with what happens around it.
type profileView struct {
	t    *testing.T
	st   *state.State
	g    *view.Graph
	view *view.View[serviceProfileKey, serviceProfile]
	seen uint64
}

func newProfileView(t *testing.T, client string, port uint32) *profileView {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	opaque, err := linkerd.ParsePortSet(linkerd.DefaultOpaquePorts, nil)
	if err != nil {
		t.Fatal(err)
	}
	profiles := &serviceProfiles{clusterDomain: "cluster.local", opaquePorts: opaque}
	v := &profileView{t: t, st: st, g: view.NewGraph(st)}
	set := profiles.newSet(v.g)
	open := func() { v.view = set.Acquire(serviceProfileKey{"ns", "web", port, client}) }
	t.Cleanup(func() {
		if v.view != nil {
			v.view.Release()
		}
	})
	open()
	return v
}

// next returns what a stream gets since the last call: nil for nothing.
func (v *profileView) next() *destination.DestinationProfile {
	v.t.Helper()
	v.g.Flush()
	current := v.view.Current()
	if current.Number == v.seen || current.Value.message == nil {
		v.seen = current.Number
		return nil
	}
	v.seen = current.Number
	profile := &destination.DestinationProfile{}
	if err := proto.Unmarshal(current.Value.message.Bytes(), profile); err != nil {
		v.t.Fatal(err)
	}
	return profile
}

// route is the name of a profile's only route, with its namespace.
func route(p *destination.DestinationProfile) string {
	if p == nil {
		return "nothing"
	}
	if len(p.Routes) == 0 {
		return "default"
	}
	return p.ProfileRef.GetResource().GetNamespace() + "/" + p.Routes[0].MetricsLabels["route"]
}

func TestServiceProfilePrecedence(t *testing.T) {
	named := func(namespace, version, name string) *linkerdv1alpha2.ServiceProfile {
		return profileOf(t, namespace, version, `routes: [{name: `+name+`, condition: {pathRegex: /}}]`)
	}
	v := newProfileView(t, "client", 80)
	expect := func(rule, want string) {
		t.Helper()
		if got := route(v.next()); got != want {
			t.Errorf("%s: %s, want %s", rule, got, want)
		}
	}
	expect("D100, B37 neither", "default")
	state.Put(v.st, state.ServiceProfiles, named("ns", "1", "server"))
	expect("D94 only the Service's", "ns/server")
	state.Put(v.st, state.ServiceProfiles, named("client", "2", "client"))
	expect("D93 the client's wins", "client/client")
	state.Put(v.st, state.ServiceProfiles, named("ns", "3", "server2"))
	expect("D97 the losing one changes", "nothing")
	state.Remove(v.st, state.ServiceProfiles, "client", "web.ns.svc.cluster.local")
	expect("D96 the client's is deleted", "ns/server2")
	state.Put(v.st, state.ServiceProfiles, named("ns", "3", "server2"))
	expect("D 2.3 the same object again", "nothing")
	state.Put(v.st, state.ServiceProfiles, named("ns", "4", "server2"))
	expect("D 2.3 another object with equal content", "ns/server2")
	state.Put(v.st, state.ServiceProfiles, profileOf(t, "ns", "5", `routes: [{name: bad, condition: {}}]`))
	expect("D112 a bad one leaves the good one in force", "nothing")
	state.Remove(v.st, state.ServiceProfiles, "ns", "web.ns.svc.cluster.local")
	expect("D98 all deleted", "default")
}

func TestServiceProfileStartsSilentWhenUnusable(t *testing.T) {
	rulebook.Covers(t, "D112")
	v := newProfileView(t, "", 80)
	v.next()
	v.view.Release()
	state.Put(v.st, state.ServiceProfiles, profileOf(t, "ns", "1", `routes: [{name: bad, condition: {}}]`))
	set := (&serviceProfiles{clusterDomain: "cluster.local"}).newSet(v.g)
	v.view, v.seen = set.Acquire(serviceProfileKey{"ns", "web", 80, ""}), 0
	if got := v.next(); got != nil {
		t.Errorf("at start: %v, want silence", got)
	}
	state.Put(v.st, state.ServiceProfiles, profileOf(t, "ns", "2", `routes: [{name: good, condition: {pathRegex: /}}]`))
	if got := route(v.next()); got != "ns/good" {
		t.Errorf("once it is good: %s", got)
	}
}

func TestServiceOpaquePorts(t *testing.T) {
	annotated := func(version, ports string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", ResourceVersion: version, Annotations: map[string]string{linkerd.OpaquePortsAnnotation: ports}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "mysql", Port: 4242}, {Port: 4244}}},
		}
	}
	for _, test := range []struct {
		name    string
		port    uint32
		service *corev1.Service
		want    bool
	}{
		{"D103 annotated port", 4242, annotated("1", "4242"), true},
		{"D103 another port", 4243, annotated("1", "4242"), false},
		{"B29 by name", 4242, annotated("1", "mysql"), true},
		{"B29 bad item is skipped", 4242, annotated("1", "nonsense, 4242"), true},
		{"D 3.6 an empty item names no port", 4244, annotated("1", "1,,2"), false},
		{"D105 default port", 3306, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, true},
		{"D105 empty annotation", 3306, annotated("1", ""), false},
		{"D101, D108, L06 no Service", 3306, nil, true},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			v := newProfileView(t, "", test.port)
			before := v.next()
			if test.service == nil {
				if before.OpaqueProtocol != test.want {
					t.Errorf("opaque %v, want %v", before.OpaqueProtocol, test.want)
				}
				return
			}
			state.Put(v.st, state.Services, test.service)
			got := v.next()
			if got == nil {
				got = before
			}
			if got.OpaqueProtocol != test.want {
				t.Errorf("opaque %v, want %v", got.OpaqueProtocol, test.want)
			}
		})
	}
}

func TestServiceOpaquePortsChange(t *testing.T) {
	rulebook.Covers(t, "D106, D107")
	v := newProfileView(t, "", 4242)
	v.next()
	put := func(version, ports string) {
		state.Put(v.st, state.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", ResourceVersion: version, Annotations: map[string]string{linkerd.OpaquePortsAnnotation: ports},
		}})
	}
	put("1", "4242")
	if got := v.next(); got == nil || !got.OpaqueProtocol {
		t.Errorf("annotated: %v", got)
	}
	put("2", "4242,4243")
	if got := v.next(); got == nil || !got.OpaqueProtocol {
		t.Errorf("other ports edited: %v, want the same again", got)
	}
	put("3", "4243, 4242")
	if got := v.next(); got != nil {
		t.Errorf("the same set in other words: %v, want nothing", got)
	}
	state.Remove(v.st, state.Services, "ns", "web")
	if got := v.next(); got == nil || got.OpaqueProtocol {
		t.Errorf("Service deleted: %v, want the default set", got)
	}
}

func TestDefaultProfile(t *testing.T) {
	rulebook.Covers(t, "D100")
	got, err := translateProfile(nil, webTarget(), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &destination.DestinationProfile{}
	if err := protojson.Unmarshal([]byte(`{"fullyQualifiedName": "web.ns.svc.cluster.local", "opaqueProtocol": true,
		"parentRef": {"resource": {"group": "core", "kind": "Service", "name": "web", "namespace": "ns", "port": 80}},
		"profileRef": {"resource": {"group": "linkerd.io"}}}`), want); err != nil {
		t.Fatal(err)
	}
	want.RetryBudget = &destination.RetryBudget{RetryRatio: 0.2, MinRetriesPerSecond: 10, Ttl: durationpb.New(10 * time.Second)}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
