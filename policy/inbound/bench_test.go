package inbound

import (
	"fmt"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// benchCluster is 1,000 Servers with a policy each and 5,000 Pods, of which
// 2,000 ports are held.
func benchCluster(b *testing.B) (*loadCluster, *view.Graph) {
	b.Helper()
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true)})
	if err != nil {
		b.Fatal(err)
	}
	c := &loadCluster{shape: loadShape{Servers: 1000, Pods: 5000}, state: st}
	config := defaultConfig()
	config.State, config.Graph, config.Routes = st, view.NewGraph(st), gateway.New(st)
	server, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	c.fill()
	config.Graph.Flush()
	for i := range 2000 {
		p := &port{server: server, number: 8080, placement: server.placements.Acquire(workloadKey{namespace: "load", name: fmt.Sprint("p", i)})}
		p.current()
	}
	return c, config.Graph
}

// BenchmarkChange measures the views alone: from a changed object to the new
// answers of all ports that it affects.
func BenchmarkChange(b *testing.B) {
	for _, row := range []struct {
		name   string
		change func(c *loadCluster, n int)
	}{
		{"policy of a Server", func(c *loadCluster, n int) { c.policy(n%1000, n/1000%2 == 0) }},
		{"policy of all Servers", func(c *loadCluster, n int) { c.command([]string{"namespace", fmt.Sprint(n % 2)}) }},
		{"label of a Server", func(c *loadCluster, n int) {
			s, _ := state.Get(c.state.Snapshot().Reader(), state.Servers, "load", "s7")
			changed := s.DeepCopy()
			changed.Labels = map[string]string{"n": fmt.Sprint(n)}
			store(c, state.Servers, changed)
		}},
		{"label of a Pod", func(c *loadCluster, n int) {
			p, _ := state.Get(c.state.Snapshot().Reader(), state.Pods, "load", "p7")
			changed := p.DeepCopy()
			changed.Labels["n"] = fmt.Sprint(n)
			store(c, state.Pods, changed)
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			c, g := benchCluster(b)
			n := 0
			for b.Loop() {
				n++
				row.change(c, n)
				g.Flush()
			}
			b.ReportAllocs()
		})
	}
}
