package destination

import (
	"fmt"
	"slices"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// The layers of an answer, each alone. Names say how many endpoints there are.

// benchCluster is a Service of so many endpoints and what clients of zone-0 see.
type benchCluster struct {
	*loadCluster
	server *Server
	graph  *view.Graph
	ports  *view.View[portKey, *endpoints]
	seen   *view.View[clientKey, *published]
}

func newBenchCluster(b *testing.B, count int) *benchCluster {
	b.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		b.Fatal(err)
	}
	c := &benchCluster{loadCluster: &loadCluster{shape: loadShape{Services: 1, Endpoints: count, Nodes: 50, Zones: 3}, state: st}, graph: view.NewGraph(st)}
	c.fill()
	config := defaultConfig()
	config.State, config.Graph = st, c.graph
	if c.server, err = New(config); err != nil {
		b.Fatal(err)
	}
	key := portKey{"load", "svc-0", 80}
	c.ports = c.server.local.ports.Acquire(key)
	c.seen = c.server.local.seen.Acquire(clientKey{portKey: key, zone: "zone-0"})
	return c
}

func forEndpoints(b *testing.B, run func(b *testing.B, count int)) {
	for _, count := range []int{10, 50, 1000} {
		b.Run(fmt.Sprint("endpoints=", count), func(b *testing.B) { run(b, count); b.ReportAllocs() })
	}
}

// BenchmarkTranslate is slices and Pods to endpoints: of everything, and of one
// endpoint more or less.
func BenchmarkTranslate(b *testing.B) {
	b.Run("all", func(b *testing.B) {
		forEndpoints(b, func(b *testing.B, count int) {
			c := newBenchCluster(b, count)
			c.seen.Release()
			c.ports.Release()
			for b.Loop() {
				c.server.local.ports.Acquire(portKey{"load", "svc-0", 80}).Release()
			}
		})
	})
	b.Run("change", func(b *testing.B) {
		forEndpoints(b, func(b *testing.B, count int) {
			c := newBenchCluster(b, count)
			c.seen.Release()
			n := 0
			for b.Loop() {
				n++
				c.slice(0, count-n%2)
				c.graph.Flush()
			}
		})
	})
}

func BenchmarkFilter(b *testing.B) {
	forEndpoints(b, func(b *testing.B, count int) {
		c := newBenchCluster(b, count)
		all := c.ports.Current().Value
		for b.Loop() {
			c.server.local.visible(all, clientKey{zone: "zone-0"})
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	forEndpoints(b, func(b *testing.B, count int) {
		c := newBenchCluster(b, count)
		now := c.seen.Current().Value
		before := &snapshot{zone: now.zone, list: slices.Delete(slices.Clone(now.list), count/2, count/2+1)}
		for b.Loop() {
			diff(before, now.snapshot)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	forEndpoints(b, func(b *testing.B, count int) {
		now := newBenchCluster(b, count).seen.Current().Value
		for b.Loop() {
			now.encode(now.list, nil)
		}
	})
}

// BenchmarkFanOut is one change on its way to the cursors of so many streams,
// without what gRPC adds.
func BenchmarkFanOut(b *testing.B) {
	for _, streams := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) {
			c := newBenchCluster(b, 50)
			var cursors []cursor
			for i := range streams {
				cur := c.server.newCursor(c.server.local, portKey{"load", "svc-0", 80}, "", fmt.Sprint("node-", i%50))
				cur.advance()
				cursors = append(cursors, cur)
			}
			n := 0
			for b.Loop() {
				n++
				c.slice(0, 50-n%2)
				c.graph.Flush()
				for i := range cursors {
					if u := cursors[i].advance(); u == nil || len(u.messages) != 1 {
						b.Fatal("no update")
					}
				}
			}
			b.ReportAllocs()
		})
	}
}
