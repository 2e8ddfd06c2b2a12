package inbound

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

const (
	// OverlapHeader is the header in which GetPort names the Servers that select
	// the port in vain, since an older one has it.
	OverlapHeader = "linkerd-lite-overlapping-servers"
	// maxOverlapWork bounds how many Servers are held against workloads at a
	// time, and maxOverlaps what is found. Beyond them nothing is said.
	maxOverlapWork = 2_000_000
	maxOverlaps    = 100
)

// overlap is a port of workloads that two Servers select: the older has it, and
// the younger has no effect there, which is right and yet nobody's intention.
type overlap struct {
	younger, older *server
	port           uint16
}

// Overlaps are the Servers without effect on some of their ports. They are
// looked for when somebody asks: it takes all Servers and workloads.
func (s *Server) Overlaps() []problems.Problem {
	r := s.state.Snapshot().Reader()
	servers := map[string][]*server{}
	for srv := range state.All(r, s.index.servers) {
		servers[srv.GetNamespace()] = append(servers[srv.GetNamespace()], srv)
	}
	found := map[overlap][]string{}
	work := 0
	for _, kind := range []*state.Kind[*workload]{s.index.pods, s.index.externalWorkloads} {
		for w := range state.All(r, kind) {
			if work += len(servers[w.GetNamespace()]); work > maxOverlapWork {
				break
			}
			overlapsOn(w, servers[w.GetNamespace()], found)
		}
	}
	return overlapProblems(found)
}

// OverlapsOf are the overlaps that a Server has, or will have once it is stored.
func (s *Server) OverlapsOf(object *policyv1beta3.Server) []problems.Problem {
	r := s.state.Snapshot().Reader()
	if object.CreationTimestamp.IsZero() {
		object.CreationTimestamp = metav1.NewTime(time.Now())
	}
	own, _ := s.deriver.server(object, nil)
	servers := []*server{own}
	for other := range state.List(r, s.index.servers, object.Namespace) {
		if other.GetName() != object.Name {
			servers = append(servers, other)
		}
	}
	kind := s.index.pods
	if own.external {
		kind = s.index.externalWorkloads
	}
	found := map[overlap][]string{}
	work := 0
	for w := range state.List(r, kind, object.Namespace) {
		if work += len(servers); work > maxOverlapWork {
			break
		}
		if own.selects(w) {
			overlapsOn(w, servers, found)
		}
	}
	maps.DeleteFunc(found, func(o overlap, _ []string) bool { return o.younger != own && o.older != own })
	return overlapProblems(found)
}

// overlapsOn adds the overlaps on one workload, under each the workload's name.
func overlapsOn(w *workload, servers []*server, found map[overlap][]string) {
	if len(servers) < 2 {
		return
	}
	owners := map[uint16]*server{}
	for _, s := range selecting(w, servers) {
		for _, port := range s.ports(w) {
			owner, taken := owners[port]
			if !taken {
				owners[port] = s
				continue
			}
			o := overlap{younger: s, older: owner, port: port}
			if names, known := found[o]; known || len(found) < maxOverlaps {
				found[o] = append(names, w.GetName())
			}
		}
	}
}

// selecting are the Servers that select the workload, in order of precedence.
func selecting(w *workload, servers []*server) []*server {
	var list []*server
	for _, s := range servers {
		if s.selects(w) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, (*server).before)
	return list
}

func overlapProblems(found map[overlap][]string) []problems.Problem {
	var out []problems.Problem
	for o, workloads := range found {
		slices.Sort(workloads)
		where := workloads[0]
		if n := len(workloads) - 1; n > 0 {
			where += fmt.Sprintf(" and %d more", n)
		}
		out = append(out, problems.Problem{
			Object:   problems.ObjectOf(state.Servers.GVK, o.younger.GetNamespace(), o.younger.GetName()),
			Field:    "spec.port",
			Message:  fmt.Sprintf("port %d of %s is taken by Server %s, which is older or comes first by name", o.port, where, o.older.GetName()),
			Instead:  "this Server has no effect there",
			Severity: problems.Warning,
			Source:   "policy",
			Since:    o.younger.created,
		})
	}
	slices.SortFunc(out, func(a, b problems.Problem) int {
		return cmp.Or(strings.Compare(a.Object.String(), b.Object.String()), strings.Compare(a.Message, b.Message))
	})
	return out
}

// overlapping names the Servers that select the port of a workload in vain.
func (s *Server) overlapping(w *workload, port uint16) []string {
	var names []string
	servers := slices.Collect(state.List(s.state.Snapshot().Reader(), s.index.servers, w.GetNamespace()))
	for _, srv := range selecting(w, servers) {
		if slices.Contains(srv.ports(w), port) {
			names = append(names, srv.GetName())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return names[1:]
}
