package destination

import (
	"strconv"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// unreadChanges happen before the last one, while a client does not read.
const unreadChanges = 5000

// unread is a kind of stream that one client does not read.
type unread struct {
	name string
	// open starts a call. Its result receives one message and returns what the
	// client knows then.
	open func(t *testing.T, client pb.DestinationClient) func() string
	// change is the nth change; it returns what clients know in the end.
	change func(l *loadServer, n int) string
}

func (u unread) openProfile(path string, knows func(*pb.DestinationProfile) string) unread {
	u.open = func(t *testing.T, client pb.DestinationClient) func() string {
		stream := openProfile(t, client, path)
		return func() string {
			p, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return knows(p)
		}
	}
	return u
}

func openProfile(t *testing.T, client pb.DestinationClient, path string) grpc.ServerStreamingClient[pb.DestinationProfile] {
	t.Helper()
	stream, err := client.GetProfile(t.Context(), &pb.GetDestination{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// A client that never reads delays nobody, and costs no more than what is on
// its way to it and one snapshot. When it reads at last, it catches up in one
// step after what was on its way.
func TestClientThatDoesNotRead(t *testing.T) {
	get := unread{name: "B01, D88 Get"}
	get.open = func(t *testing.T, client pb.DestinationClient) func() string {
		stream, held := openGet(t, client, 0, "node-0"), map[string]string{}
		return func() string {
			receive(t, stream, held)
			return strconv.Itoa(len(held))
		}
	}
	get.change = func(l *loadServer, n int) string {
		count := 1 + n%150
		if n == unreadChanges {
			count = 180 // as at no time before
		}
		l.slice(0, count)
		return strconv.Itoa(count)
	}
	service := unread{name: "B02 GetProfile of a Service"}.openProfile("svc-0.load.svc.cluster.local:80", func(p *pb.DestinationProfile) string {
		if len(p.Routes) == 0 {
			return ""
		}
		return p.Routes[0].MetricsLabels["route"]
	})
	service.change = func(l *loadServer, n int) string {
		route := "route-" + strconv.Itoa(n)
		sp := &linkerdv1alpha2.ServiceProfile{}
		sp.Namespace, sp.Name = "load", "svc-0.load.svc.cluster.local"
		sp.Spec.Routes = []*linkerdv1alpha2.RouteSpec{{Name: route, Condition: &linkerdv1alpha2.RequestMatch{PathRegex: "/"}}}
		put(l.loadCluster, state.ServiceProfiles, sp)
		return route
	}
	pod := unread{name: "B02 GetProfile of a Pod"}.openProfile(loadIP(0, 0)+":8080", func(p *pb.DestinationProfile) string {
		return p.Endpoint.MetricLabels["pod_template_hash"]
	})
	pod.change = func(l *loadServer, n int) string {
		hash := "h" + strconv.Itoa(n)
		now, _ := state.Get(l.state.Snapshot().Reader(), state.Pods, "load", "pod-0-0")
		now = now.DeepCopy()
		now.Labels[linkerd.PodTemplateHashLabel] = hash
		put[*corev1.Pod](l.loadCluster, state.Pods, now)
		return hash
	}
	for _, u := range []unread{get, service, pod} {
		rulebook.Run(t, u.name, u.run)
	}
}

func (u unread) run(t *testing.T) {
	l := serveInProcess(t, loadShape{Services: 1, Endpoints: 200, Nodes: 3, Zones: 3})
	idle, busy := u.open(t, l.dial(t)), u.open(t, l.dial(t))
	busy()
	before := heapLive()
	for n := range unreadChanges {
		want := u.change(l, n)
		// So that each change is one of its own to the streams.
		l.graph.Flush()
		if n%100 == 0 {
			for busy() != want {
			}
		}
	}
	want := u.change(l, unreadChanges)
	for busy() != want {
	}
	if grown := heapLive() - before; grown > 2<<20 {
		t.Errorf("the heap has grown by %d KiB", grown/1024)
	}
	messages := 1
	for idle() != want {
		messages++
	}
	if messages > unreadChanges/4 {
		t.Errorf("the client was sent %d messages late, of %d changes", messages, unreadChanges)
	}
}
