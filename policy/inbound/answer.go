package inbound

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// answerKey is all that an answer depends on. Ports with the same key share
// their answer.
type answerKey struct {
	// namespace and server name the Server that owns the port; for a port
	// without one, policy and opaque say what it has instead.
	namespace, server string
	policy            policyName
	opaque            bool
	// probes are the paths of the port's probes, see probeKey.
	probes string
}

// portKey names a port of a workload.
type portKey struct {
	workload workloadKey
	port     uint16
}

// answer is what a client of a port is told. Immutable.
type answer struct {
	// uid tells a workload from an earlier one of the same name: an answer for
	// one is none for the other.
	uid types.UID
	// encoded is nil when there is no such workload.
	encoded *grpcserver.Encoded
}

func (a answer) equal(other answer) bool {
	return a.uid == other.uid && sameBytes(a.encoded, other.encoded)
}

func sameBytes(a, b *grpcserver.Encoded) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || bytes.Equal(a.Bytes(), b.Bytes())
}

// views are the four families, from the cluster's objects to the answers.
type views struct {
	ports *view.Set[portKey, answer]
	// The families below are held by those above alone.
	placements *view.Set[workloadKey, placement]
	servers    *view.Set[serverKey, *terms]
	answers    *view.Set[answerKey, *grpcserver.Encoded]
}

type serverKey struct{ namespace, name string }

// rules are what answers depend on besides the cluster's objects.
type rules struct {
	defaultPolicy   policyName
	clusterNetworks []*pb.Network
	// probeNetworks may be empty: no route for probes then.
	probeNetworks []*pb.Network
}

func newViews(g *view.Graph, ix *index, rules rules) *views {
	v := &views{placements: newPlacements(g, ix)}
	v.servers = view.NewSet(g, func(r *view.Reader, key serverKey, _ **terms) *terms {
		return ix.serverTerms(r.Reader, key.namespace, key.name, rules.clusterNetworks)
	}, func(a, b *terms) bool { return a == b || a != nil && b != nil && a.equal(b) })
	v.answers = view.NewSet(g, func(r *view.Reader, key answerKey, _ **grpcserver.Encoded) *grpcserver.Encoded {
		var t *terms
		if key.server != "" {
			t = view.Use(r, v.servers, serverKey{key.namespace, key.server})
		} else {
			t = defaultTerms(key.policy, key.opaque, rules.clusterNetworks)
		}
		switch {
		case t == nil:
			return nil
		case key.probes == "" || len(rules.probeNetworks) == 0 || !t.takesProbes():
			return t.encoded
		}
		return t.encode(probeRoute(key.probes, rules.probeNetworks))
	}, sameBytes)
	v.ports = view.NewSet(g, func(r *view.Reader, key portKey, _ *answer) answer {
		p := view.Use(r, v.placements, key.workload)
		if p.workload == nil {
			return answer{}
		}
		return answer{uid: p.workload.GetUID(), encoded: view.Use(r, v.answers, p.answerKey(key.port, rules.defaultPolicy))}
	}, answer.equal)
	return v
}

// answerKey is what the answer for a port of the workload depends on.
func (p placement) answerKey(port uint16, defaultPolicy policyName) answerKey {
	key := answerKey{probes: p.workload.probes[port]}
	if owner, owned := p.owners[port]; owned {
		key.namespace, key.server = p.workload.GetNamespace(), owner
		return key
	}
	key.policy = defaultPolicy
	if p.workload.defaultPolicy != "" {
		key.policy = p.workload.defaultPolicy
	}
	if p.workload.requireIdentity.Contains(uint32(port)) {
		key.policy = key.policy.authenticated()
	}
	key.opaque = p.workload.opaque.Contains(uint32(port))
	return key
}
