package extworkloads

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

func vm(name string, port int32, ips ...string) *workloadv1beta1.ExternalWorkload {
	ew := &workloadv1beta1.ExternalWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "vm"}},
		Spec:       workloadv1beta1.ExternalWorkloadSpec{Ports: []workloadv1beta1.PortSpec{{Name: "http", Port: port}}},
		Status:     workloadv1beta1.ExternalWorkloadStatus{Conditions: []workloadv1beta1.WorkloadCondition{{Type: "Ready", Status: metav1.ConditionTrue}}},
	}
	for _, ip := range ips {
		ew.Spec.WorkloadIPs = append(ew.Spec.WorkloadIPs, workloadv1beta1.WorkloadIP{IP: ip})
	}
	return ew
}

func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "vm"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func fleet(n int, port func(int) int32) []*workloadv1beta1.ExternalWorkload {
	var all []*workloadv1beta1.ExternalWorkload
	for i := range n {
		all = append(all, vm(fmt.Sprintf("vm-%03d", i), port(i), fmt.Sprintf("192.0.2.%d", i%250)))
	}
	return all
}

// sizes are the numbers of endpoints of the slices, largest first.
func sizes(slicesOf []*discoveryv1.EndpointSlice) []int {
	var n []int
	for _, s := range slicesOf {
		n = append(n, len(s.Endpoints))
	}
	slices.SortFunc(n, func(a, b int) int { return b - a })
	return n
}

// written gives created slices the names that an API server would.
func written(plan Plan, existing []*discoveryv1.EndpointSlice, names *int) []*discoveryv1.EndpointSlice {
	byName := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range existing {
		byName[s.Name] = s
	}
	for _, s := range plan.Delete {
		delete(byName, s.Name)
	}
	for _, s := range plan.Update {
		byName[s.Name] = s
	}
	for _, s := range plan.Create {
		*names++
		s.Name = fmt.Sprintf("%s%03d", s.GenerateName, *names)
		byName[s.Name] = s
	}
	var all []*discoveryv1.EndpointSlice
	for _, s := range byName {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmpName(a.Name, b.Name) })
	return all
}

func cmpName(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestPlan(t *testing.T) {
	same := func(int) int32 { return 8080 }
	for _, test := range []struct {
		name      string
		service   *corev1.Service
		workloads []*workloadv1beta1.ExternalWorkload
		want      []int
	}{
		{"D140 250 workloads", service("vms"), fleet(250, same), []int{100, 100, 50}},
		{"D142 a named port of 5 numbers", service("vms"), fleet(300, func(i int) int32 { return 8080 + int32(i%5) }), []int{60, 60, 60, 60, 60}},
		{"D 3.8 no workload, no slice", service("vms"), nil, nil},
		{"D 3.8 no address", service("vms"), []*workloadv1beta1.ExternalWorkload{vm("a", 80)}, nil},
		{"D 3.8 both families", service("vms"), []*workloadv1beta1.ExternalWorkload{vm("a", 80, "192.0.2.1", "2001:db8::1")}, []int{1, 1}},
		{"D 3.8 the Service's family", service("vms", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }),
			[]*workloadv1beta1.ExternalWorkload{vm("a", 80, "192.0.2.1", "2001:db8::1")}, []int{1}},
		{"D 3.8 a port that is not declared", service("vms", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9999) }), fleet(1, same), []int{1}},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			plan := NewPlan(test.service, test.workloads, nil)
			if diff := cmp.Diff(test.want, sizes(plan.Create)); diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
			names := 0
			if again := NewPlan(test.service, test.workloads, written(plan, nil, &names)); !again.Empty() {
				t.Errorf("the same again writes %d, %d, %d", len(again.Create), len(again.Update), len(again.Delete))
			}
		})
	}
}

func TestSliceContent(t *testing.T) {
	rulebook.Covers(t, "D143")
	ew := vm("vm-1", 8080, "192.0.2.1")
	ew.UID = "vm-uid"
	ew.Labels["topology.kubernetes.io/zone"] = "east"
	ew.Status.Conditions[0].Status = metav1.ConditionFalse
	headlessService := service("vms", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	plan := NewPlan(headlessService, []*workloadv1beta1.ExternalWorkload{ew}, nil)
	if len(plan.Create) != 1 {
		t.Fatalf("%d slices", len(plan.Create))
	}
	yes, no, tcp := true, false, corev1.ProtocolTCP
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "linkerd-external-vms-", Namespace: "ns",
			Labels: map[string]string{
				"endpointslice.kubernetes.io/managed-by": "linkerd-external-workloads-controller",
				"kubernetes.io/service-name":             "vms",
				"service.kubernetes.io/headless":         "",
				"team":                                   "a",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "vms", UID: "u", Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: &tcp}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{"192.0.2.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &no},
			Hostname:   new("vm-1"),
			Zone:       new("east"),
			TargetRef:  &corev1.ObjectReference{Kind: "ExternalWorkload", Namespace: "ns", Name: "vm-1", UID: "vm-uid"},
		}},
	}
	if diff := cmp.Diff(want, plan.Create[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// D 3.8: what an endpoint and its ports follow from.
func TestEndpointContent(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Service, *workloadv1beta1.ExternalWorkload)
		// want is each endpoint's readiness and hostname, with its slice's number of ports.
		want string
	}{
		{"ready, no hostname without a headless Service", func(*corev1.Service, *workloadv1beta1.ExternalWorkload) {}, "true  1"},
		{"condition Unknown", func(_ *corev1.Service, ew *workloadv1beta1.ExternalWorkload) {
			ew.Status.Conditions[0].Status = metav1.ConditionUnknown
		}, "false  1"},
		{"no condition", func(_ *corev1.Service, ew *workloadv1beta1.ExternalWorkload) { ew.Status.Conditions = nil }, "false  1"},
		{"D143 headless", func(s *corev1.Service, _ *workloadv1beta1.ExternalWorkload) { s.Spec.ClusterIP = corev1.ClusterIPNone }, "true vm-1 1"},
		{"another protocol", func(_ *corev1.Service, ew *workloadv1beta1.ExternalWorkload) {
			ew.Spec.Ports[0].Protocol = corev1.ProtocolUDP
		}, "true  0"},
		{"being deleted", func(_ *corev1.Service, ew *workloadv1beta1.ExternalWorkload) { ew.DeletionTimestamp = &metav1.Time{} }, ""},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			s, ew := service("vms"), vm("vm-1", 8080, "192.0.2.1")
			test.change(s, ew)
			got := ""
			for _, slice := range NewPlan(s, []*workloadv1beta1.ExternalWorkload{ew}, nil).Create {
				for _, e := range slice.Endpoints {
					hostname := ""
					if e.Hostname != nil {
						hostname = *e.Hostname
					}
					got += fmt.Sprint(*e.Conditions.Ready, " ", hostname, " ", len(slice.Ports))
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// D 3.8: Services whose slices are somebody else's.
func TestManaged(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"kube-system":  func(s *corev1.Service) { s.Namespace = "kube-system" },
		"ExternalName": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"no selector":  func(s *corev1.Service) { s.Spec.Selector = nil },
	} {
		if managed(service("vms", change)) {
			t.Errorf("%s: taken for managed", name)
		}
	}
	if !managed(service("vms")) {
		t.Error("a Service with a selector is not managed")
	}
}

// D 3.8 packing: additions go to slices that are written anyway, then to the
// untouched one that ends up closest to full.
func TestPacking(t *testing.T) {
	same := func(int) int32 { return 8080 }
	all := fleet(255, same)
	names := 0
	existing := written(NewPlan(service("vms"), all[:250], nil), nil, &names)

	plan := NewPlan(service("vms"), all, existing)
	if len(plan.Create) != 0 || len(plan.Delete) != 0 || len(plan.Update) != 1 || len(plan.Update[0].Endpoints) != 55 {
		t.Errorf("five more: create %v, update %v, delete %d; want one update to 55", sizes(plan.Create), sizes(plan.Update), len(plan.Delete))
	}
	withoutSome := append(slices.Clone(all[3:250]), all[250:253]...)
	plan = NewPlan(service("vms"), withoutSome, existing)
	if len(plan.Create) != 0 || len(plan.Update) != 1 || len(plan.Update[0].Endpoints) != 100 {
		t.Errorf("three swapped: create %v, update %v; want the shrunk slice filled", sizes(plan.Create), sizes(plan.Update))
	}
	plan = NewPlan(service("vms"), fleet(10, func(int) int32 { return 9090 }), existing[:1])
	if len(plan.Create) != 0 || len(plan.Update) != 1 || len(plan.Delete) != 0 {
		t.Errorf("another port: create %d, update %d, delete %d; want the old slice reused", len(plan.Create), len(plan.Update), len(plan.Delete))
	}
	plan = NewPlan(service("vms"), nil, existing)
	if len(plan.Delete) != 3 || len(plan.Update)+len(plan.Create) != 0 {
		t.Errorf("all gone: %+v", plan)
	}
}

// Whatever happened before, the slices end up with exactly the wanted
// endpoints, none of them over-full, and then nothing more is written.
func TestPlanConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var existing []*discoveryv1.EndpointSlice
		names := 0
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			from := rapid.IntRange(0, 200).Draw(rt, "from")
			to := rapid.IntRange(from, 320).Draw(rt, "to")
			ports := rapid.IntRange(1, 3).Draw(rt, "ports")
			workloads := fleet(to, func(i int) int32 { return 8000 + int32(i%ports) })[from:]
			existing = written(NewPlan(service("vms"), workloads, existing), existing, &names)
			seen := map[string]int{}
			for _, s := range existing {
				if len(s.Endpoints) == 0 || len(s.Endpoints) > maxEndpoints {
					rt.Fatalf("slice %s has %d endpoints", s.Name, len(s.Endpoints))
				}
				for _, e := range s.Endpoints {
					seen[e.TargetRef.Name]++
				}
			}
			for _, ew := range workloads {
				if seen[ew.Name] != 1 {
					rt.Fatalf("%s is in %d slices", ew.Name, seen[ew.Name])
				}
			}
			if len(seen) != len(workloads) {
				rt.Fatalf("%d endpoints, want %d", len(seen), len(workloads))
			}
			if again := NewPlan(service("vms"), workloads, existing); !again.Empty() {
				rt.Fatal("not settled after one round")
			}
		}
	})
}

// A change of a workload is one of the plans of those Services whose slices
// differ then, and of no others.
func TestPlansFollowWorkloads(t *testing.T) {
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c", "none"}
	selecting := func(name string, selector map[string]string) {
		state.Put(st, state.Services, service(name, func(s *corev1.Service) { s.Spec.Selector = selector }))
	}
	selecting("a", map[string]string{"svc": "a"})
	selecting("b", map[string]string{"svc": "b"})
	selecting("c", map[string]string{"app": "vm"})
	selecting("none", nil)
	labelled := func(svc string, change ...func(*workloadv1beta1.ExternalWorkload)) *workloadv1beta1.ExternalWorkload {
		ew := vm("vm-1", 80, "192.0.2.1")
		ew.Labels["svc"] = svc
		for _, c := range change {
			c(ew)
		}
		return ew
	}
	for _, test := range []struct {
		name     string
		old, now *workloadv1beta1.ExternalWorkload
		want     []string
	}{
		{"new", nil, labelled("a"), []string{"a", "c"}},
		{"gone", labelled("a"), nil, []string{"a", "c"}},
		{"D144 labels only", labelled("a"), labelled("b"), []string{"a", "b"}},
		{"D 3.8 labels and content", labelled("a"), labelled("b", func(ew *workloadv1beta1.ExternalWorkload) { ew.Spec.Ports[0].Port = 81 }), []string{"a", "b", "c"}},
		{"D 3.8 readiness", labelled("a"), labelled("a", func(ew *workloadv1beta1.ExternalWorkload) { ew.Status.Conditions = nil }), []string{"a", "c"}},
		{"D 3.8 nothing relevant", labelled("a"), labelled("a", func(ew *workloadv1beta1.ExternalWorkload) {
			ew.Annotations = map[string]string{"x": "y"}
		}), nil},
		{"D141 another namespace", nil, labelled("a", func(ew *workloadv1beta1.ExternalWorkload) { ew.Namespace = "other" }), nil},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			graph := view.NewGraph(st)
			plans := view.NewSet(graph, "slices", planOf, samePlan)
			keyOf := func(name string) reconcile.Key {
				return reconcile.Key{Kind: &state.Services.KindInfo, Namespace: "ns", Name: name}
			}
			for _, ew := range []*workloadv1beta1.ExternalWorkload{test.old, test.now} {
				if ew != nil {
					state.Remove(st, state.ExternalWorkloads, ew.Namespace, ew.Name)
				}
			}
			if test.old != nil {
				state.Put(st, state.ExternalWorkloads, test.old)
			}
			held := map[string]*view.View[reconcile.Key, basedPlan]{}
			for _, name := range names {
				held[name] = plans.Acquire(keyOf(name))
				for i, slice := range held[name].Current().Value.Create {
					stored := slice.DeepCopy()
					stored.Name = fmt.Sprint(name, i)
					state.Put(st, state.EndpointSlices, stored)
					defer state.Remove(st, state.EndpointSlices, stored.Namespace, stored.Name)
				}
			}
			graph.Flush()
			for name, v := range held {
				if !v.Current().Value.Empty() {
					t.Fatalf("%s is not settled: %+v", name, v.Current().Value)
				}
			}
			if test.now != nil {
				state.Put(st, state.ExternalWorkloads, test.now)
			} else {
				state.Remove(st, state.ExternalWorkloads, test.old.Namespace, test.old.Name)
			}
			graph.Flush()
			var got []string
			for _, name := range names {
				if !held[name].Current().Value.Empty() {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
