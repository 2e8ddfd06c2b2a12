package extworkloads

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// feed copies the API server's slices into the State, as a reflector does.
func feed(ctx context.Context, t *testing.T, client *fake.Clientset, st *state.State, seen chan<- *discoveryv1.EndpointSlice) {
	t.Helper()
	watcher, err := client.DiscoveryV1().EndpointSlices("ns").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case event, ok := <-watcher.ResultChan():
				if !ok {
					return
				}
				slice := event.Object.(*discoveryv1.EndpointSlice).DeepCopy()
				state.Put(st, state.EndpointSlices, slice)
				select {
				case seen <- slice:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		watcher.Stop()
		wg.Wait()
	})
}

func TestControllerWritesSlices(t *testing.T) {
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	st.MarkSynced()
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan *discoveryv1.EndpointSlice)
	feed(ctx, t, client, st, seen)

	state.Put(st, state.Services, service("vms"))
	state.Put(st, state.ExternalWorkloads, vm("vm-1", 8080, "192.0.2.1"))
	done := make(chan error, 1)
	registry := prometheus.NewRegistry()
	graph := view.NewGraph(st)
	controller, err := New(Config{State: st, Graph: graph, Client: client, Leases: client.CoordinationV1(), Namespace: "linkerd", Identity: "lite", Log: slog.New(slog.DiscardHandler), Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	group.Go(func() { graph.Run(ctx) })
	go func() { done <- controller.Run(ctx) }()
	if slice := <-seen; len(slice.Endpoints) != 1 {
		t.Errorf("objects from before the Lease was won: %d endpoints, want 1", len(slice.Endpoints))
	}
	state.Put(st, state.ExternalWorkloads, vm("vm-2", 8080, "192.0.2.2"))
	if slice := <-seen; len(slice.Endpoints) != 2 {
		t.Errorf("after another workload: %d endpoints, want 2", len(slice.Endpoints))
	}
	state.Remove(st, state.ExternalWorkloads, "ns", "vm-1")
	if slice := <-seen; len(slice.Endpoints) != 1 || slice.Endpoints[0].TargetRef.Name != "vm-2" {
		t.Errorf("after a deletion: %+v", slice.Endpoints)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dto.Metric{}
	for _, family := range families {
		found[family.GetName()] = family.Metric[0]
	}
	for _, name := range []string{"depth", "adds_total", "queue_duration_seconds", "work_duration_seconds",
		"unfinished_work_seconds", "longest_running_processor_seconds", "retries_total", "drops_total"} {
		m := found["workqueue_"+name]
		if m == nil || len(m.Label) != 1 || m.Label[0].GetValue() != "endpoints_controller_workqueue" {
			t.Errorf("D 4.1: workqueue_%s is %v", name, m)
		}
	}
	if got := found["workqueue_adds_total"].GetCounter().GetValue(); got < 3 {
		t.Errorf("D 4.1: %v Services were to be looked at, want 3 at least", got)
	}
	if got := found["workqueue_drops_total"].GetCounter().GetValue(); got != 0 {
		t.Errorf("D 4.1: %v Services were given up", got)
	}
}

// D 3.8: a Service that cannot be written is tried again, 15 times.
func TestControllerRetries(t *testing.T) {
	for _, test := range []struct {
		name                  string
		failures              int
		attempts, drops, made int
	}{
		{name: "a hiccup", failures: 3, attempts: 4, made: 1},
		{name: "the last attempt", failures: 15, attempts: 16, made: 1},
		{name: "for good", failures: 100, attempts: 16, drops: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
				if err != nil {
					t.Fatal(err)
				}
				state.Put(st, state.Services, service("vms"))
				state.Put(st, state.ExternalWorkloads, vm("vm-1", 8080, "192.0.2.1"))
				client := fake.NewClientset()
				var mu sync.Mutex
				attempts := 0
				client.PrependReactor("create", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
					mu.Lock()
					defer mu.Unlock()
					attempts++
					return attempts <= test.failures, nil, errors.New("the server is on fire")
				})
				registry := prometheus.NewRegistry()
				graph := view.NewGraph(st)
				controller, err := New(Config{State: st, Graph: graph, Client: client, Log: slog.New(slog.DiscardHandler), Registerer: registry})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { graph.Run(ctx) }()
				go func() { done <- controller.loop.Lead(ctx) }()
				time.Sleep(24 * time.Hour) // in the bubble's time
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				slices, err := client.DiscoveryV1().EndpointSlices("ns").List(context.Background(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				drops := testutil.ToFloat64(controller.metrics.drops.WithLabelValues(queueName))
				if attempts != test.attempts || int(drops) != test.drops || len(slices.Items) != test.made {
					t.Errorf("%d attempts, %v drops, %d slices; want %d, %d, %d", attempts, drops, len(slices.Items), test.attempts, test.drops, test.made)
				}
			})
		})
	}
}
