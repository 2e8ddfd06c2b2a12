package inbound

import (
	"cmp"
	"slices"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// placement says which Server owns which port of a workload. Immutable.
type placement struct {
	// workload is nil when there is no such workload.
	workload *workload
	// owners are the Servers of ports, by port; one without has the default policy.
	owners []ownership
}

type ownership struct {
	port   uint16
	server *server
}

func (p placement) equal(other placement) bool {
	return p.workload == other.workload && slices.Equal(p.owners, other.owners)
}

// owner is the Server that owns a port, nil if there is none.
func (p placement) owner(port uint16) *server {
	i, owned := p.search(port)
	if !owned {
		return nil
	}
	return p.owners[i].server
}

func (p placement) search(port uint16) (int, bool) {
	return slices.BinarySearchFunc(p.owners, port, func(o ownership, port uint16) int { return cmp.Compare(o.port, port) })
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
			if i, taken := p.search(port); !taken {
				p.owners = slices.Insert(p.owners, i, ownership{port, s})
			}
		}
	}
	return p
}

func newPlacements(g *view.Graph, ix *index) *view.Set[workloadKey, placement] {
	return view.NewSet(g, "inbound/placements", func(r *view.Reader, key workloadKey, _ *placement) placement {
		return ix.place(r.Reader, key)
	}, placement.equal)
}
