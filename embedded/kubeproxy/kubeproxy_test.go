package kubeproxy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// remembering is a forwarder that only remembers. It refuses what is in refused.
type remembering struct {
	mu      sync.Mutex
	ports   map[string]sandbox.Service
	refused map[string]bool
	calls   int
}

func (r *remembering) SetService(_ context.Context, service sandbox.Service) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.refused[service.ID] {
		return errors.New("refused")
	}
	r.ports[service.ID] = service
	return nil
}

func (r *remembering) RemoveService(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ports, id)
	return nil
}

// endpoints are those that the port of this ID leads to.
func (r *remembering) endpoints(id string) (list []string, has bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	port, has := r.ports[id]
	for _, endpoint := range port.Endpoints {
		list = append(list, endpoint.String())
	}
	return list, has
}

func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.1.1", ClusterIPs: []string{"10.96.1.1"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	change(s)
	return s
}

// slice has endpoints with these addresses, each with a letter: ready, not ready, or
// ending while it serves.
func slice(endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, text := range endpoints {
		conditions := map[byte]discoveryv1.EndpointConditions{
			'r': {Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			'n': {Ready: ptr.To(false), Serving: ptr.To(false), Terminating: ptr.To(false)},
			'e': {Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
			'?': {},
		}[text[0]]
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{text[1:]}, Conditions: conditions})
	}
	return s
}

func TestForwarding(t *testing.T) {
	const id = "shop/web:TCP/10.96.1.1:80"
	for _, test := range []struct {
		name    string
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		want    []string
		gone    bool
	}{
		{"ready ones", service(func(*corev1.Service) {}), []*discoveryv1.EndpointSlice{slice("r10.244.0.3", "r10.244.0.2", "n10.244.0.4", "e10.244.0.5", "?10.244.0.6")},
			[]string{"10.244.0.2:8080", "10.244.0.3:8080", "10.244.0.6:8080"}, false},
		{"ending ones if there are no others", service(func(*corev1.Service) {}), []*discoveryv1.EndpointSlice{slice("n10.244.0.4", "e10.244.0.5")}, []string{"10.244.0.5:8080"}, false},
		{"none", service(func(*corev1.Service) {}), nil, nil, false},
		{"not ready, published", service(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }), []*discoveryv1.EndpointSlice{slice("n10.244.0.4")}, []string{"10.244.0.4:8080"}, false},
		{"a port by another name", service(func(s *corev1.Service) { s.Spec.Ports[0].Name = "grpc" }), []*discoveryv1.EndpointSlice{slice("r10.244.0.3")}, nil, false},
		{"headless", service(func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		}), []*discoveryv1.EndpointSlice{slice("r10.244.0.3")}, nil, true},
		{"a name elsewhere", service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), nil, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &remembering{ports: map[string]sandbox.Service{}}
				st := run(t, to)
				state.Put(st, state.Services, test.service)
				for _, s := range test.slices {
					state.Put(st, state.EndpointSlices, s)
				}
				synctest.Wait()
				got, has := to.endpoints(id)
				if has == test.gone || !slices.Equal(got, test.want) {
					t.Errorf("%v, %v; want %v", got, has, test.want)
				}
			})
		})
	}
}

// run runs a proxy on a State of its own.
func run(t *testing.T, to Forwarder) *state.State {
	t.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	graph := view.NewGraph(st)
	proxy := New(graph, to, []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{graph.Run, proxy.Run} {
		group.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	return st
}

// Changes are told once, what is refused is tried again, and what goes is taken away.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "shop/web:TCP/10.96.1.1:80"
		to := &remembering{ports: map[string]sandbox.Service{}, refused: map[string]bool{id: true}}
		st := run(t, to)
		state.Put(st, state.Services, service(func(*corev1.Service) {}))
		state.Put(st, state.Services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}, Ports: []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}}},
		})
		synctest.Wait()
		if _, has := to.endpoints(id); has {
			t.Fatal("it was not refused")
		}
		to.mu.Lock()
		to.refused = nil
		to.mu.Unlock()
		time.Sleep(2 * retryAfter) // of the bubble
		if _, has := to.endpoints(id); !has || len(to.ports) != 1 {
			t.Errorf("%v", to.ports)
		}
		calls := to.calls
		state.Put(st, state.EndpointSlices, slice("r10.244.0.2"))
		synctest.Wait()
		if got, _ := to.endpoints(id); !slices.Equal(got, []string{"10.244.0.2:8080"}) || to.calls != calls+1 {
			t.Errorf("%v after %d calls", got, to.calls-calls)
		}
		state.Remove(st, state.Services, "shop", "web")
		synctest.Wait()
		if len(to.ports) != 0 {
			t.Errorf("%v", to.ports)
		}
	})
}

// Each cluster IP of a Service leads to the endpoints of its own family.
func TestFamilies(t *testing.T) {
	const id4, id6 = "shop/web:TCP/10.96.1.1:80", "shop/web:TCP/[fd00:10:96::7]:80"
	slice6 := slice("rfd00:10:244::5", "nfd00:10:244::6")
	slice6.Name, slice6.AddressType = "web-6", discoveryv1.AddressTypeIPv6
	synctest.Test(t, func(t *testing.T) {
		to := &remembering{ports: map[string]sandbox.Service{}}
		st := run(t, to)
		state.Put(st, state.EndpointSlices, slice("r10.244.0.2"))
		state.Put(st, state.EndpointSlices, slice6)
		for _, ips := range [][]string{{"10.96.1.1"}, {"10.96.1.1", "fd00:10:96::7"}, {"fd00:10:96::7"}} {
			state.Put(st, state.Services, service(func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = ips[0], ips }))
			synctest.Wait()
			got4, has4 := to.endpoints(id4)
			got6, has6 := to.endpoints(id6)
			if has4 && !slices.Equal(got4, []string{"10.244.0.2:8080"}) || has6 && !slices.Equal(got6, []string{"[fd00:10:244::5]:8080"}) ||
				has4 != slices.Contains(ips, "10.96.1.1") || has6 != slices.Contains(ips, "fd00:10:96::7") {
				t.Errorf("%v: %v", ips, to.ports)
			}
		}
	})
}
