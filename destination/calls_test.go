package destination

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// calls is a Destination service that tells when its calls end.
type calls struct {
	pb.DestinationServer
	news news
}

func (c *calls) Get(request *pb.GetDestination, stream grpc.ServerStreamingServer[pb.Update]) error {
	defer c.news.tell()
	return c.DestinationServer.Get(request, stream)
}

func (c *calls) GetProfile(request *pb.GetDestination, stream grpc.ServerStreamingServer[pb.DestinationProfile]) error {
	defer c.news.tell()
	return c.DestinationServer.GetProfile(request, stream)
}

// news wakes those who wait for a condition that may hold now.
type news struct {
	mu   sync.Mutex
	next chan struct{}
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// until waits until the condition holds, which it looks at whenever there are news.
func (n *news) until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(eventually.Patience)
	for {
		next := n.wait()
		if condition() {
			return
		}
		select {
		case <-next:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// goroutinesEnd waits until there are no more goroutines than that. They end
// some time after what they are about, and nothing tells when.
func goroutinesEnd(t testing.TB, limit int) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(eventually.Patience)
	for runtime.NumGoroutine() > limit {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("%d goroutines are left, want at most %d", runtime.NumGoroutine(), limit)
		}
	}
}
