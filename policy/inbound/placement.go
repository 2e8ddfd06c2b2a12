package inbound

import (
	"maps"
	"slices"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// placement says which Server owns which port of a workload. Immutable.
type placement struct {
	// workload is nil when there is no such workload.
	workload *workload
	// owners are the Servers' names by port; a port without one has the default policy.
	owners map[uint16]string
}

func (p placement) equal(other placement) bool {
	return p.workload == other.workload && maps.Equal(p.owners, other.owners)
}

// place reads the Servers that select the workload: of several for one port
// the oldest owns it, then the first by name (policy-inbound 4.4).
func (ix *index) place(r *state.Reader, key workloadKey) placement {
	w, ok := state.Get(r, ix.workloads(key), key.namespace, key.name)
	if !ok {
		return placement{}
	}
	servers := slices.SortedFunc(state.ListWhere(r, ix.servers, key.namespace, func(s *server) bool { return s.selects(w) }), (*server).before)
	p := placement{workload: w}
	for _, s := range servers {
		for _, port := range s.ports(w) {
			if _, taken := p.owners[port]; taken {
				continue
			}
			if p.owners == nil {
				p.owners = map[uint16]string{}
			}
			p.owners[port] = s.GetName()
		}
	}
	return p
}

func newPlacements(g *view.Graph, ix *index) *view.Set[workloadKey, placement] {
	return view.NewSet(g, func(r *view.Reader, key workloadKey, _ *placement) placement {
		return ix.place(r.Reader, key)
	}, placement.equal)
}
