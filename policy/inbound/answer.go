package inbound

import (
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
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

// answer is what clients of a port are told. Immutable.
type answer struct {
	// server is the version of the Server that the answer was made from. It is
	// nil for a port without one.
	server *server
	// encoded is nil if the key names a Server that does not exist.
	encoded *grpcserver.Encoded
	// head is how many of the first bytes come before the authorizations and
	// depend on the key and the Server alone; 0 if they depend on more.
	head int
}

func (a answer) equal(other answer) bool {
	return a.server == other.server && a.encoded.Equal(other.encoded)
}

// unprobed says what nobody expects: probes worked, and a route for something
// else ends that (B41).
func unprobed(key answerKey) problems.Problem {
	return problems.Problem{
		Object:   problems.ObjectOf(state.Servers.GVK, key.namespace, key.server),
		Message:  "probes need a route that lets them in, now that the Server has routes: " + strings.Join(strings.Split(key.probes, probeSeparator), ", "),
		Severity: problems.Note,
	}
}

// answer finds what clients of a port with that key are told. A change of
// authorizations, which may concern all Servers of a namespace, costs little:
// what comes before them is taken from the previous answer.
func (ix *index) answer(r *view.Reader, key answerKey, previous *answer) answer {
	var p *portPolicy
	var s *server
	if key.server != "" {
		var ok bool
		if s, ok = state.Get(r.Reader, ix.servers, key.namespace, key.server); !ok {
			return answer{}
		}
		p = ix.serverPortPolicy(r, s)
	} else {
		p = ix.messages.defaultPortPolicy(key.policy, key.opaque)
	}
	probed := key.probes != "" && len(ix.messages.probeNetworks) > 0 && p.isHTTP()
	if probed && len(p.httpRoutes) > 0 {
		r.Report(unprobed(key))
	}
	var data []byte
	if p.isPlain() && previous != nil && previous.head > 0 && previous.server == s {
		data = previous.encoded.Bytes()[:previous.head:previous.head]
	} else {
		var probes *pb.HttpRoute
		if probed && len(p.httpRoutes) == 0 {
			probes = ix.messages.probeRoute(key.probes)
		}
		data = encode(ix.messages.message(p, probes))
	}
	out := answer{server: s}
	if p.isPlain() {
		out.head = len(data)
	}
	size := len(data)
	for _, a := range p.authorizations {
		size += len(a.encoded)
	}
	whole := append(make([]byte, 0, size), data...)
	for _, a := range p.authorizations {
		whole = append(whole, a.encoded...)
	}
	out.encoded = grpcserver.NewEncoded(whole)
	return out
}

func newAnswers(g *view.Graph, ix *index) *view.Set[answerKey, answer] {
	ix.granted = newGranted(g, ix)
	return view.NewSet(g, "inbound/answers", ix.answer, answer.equal)
}

// answerKey is what the answer for a port of the workload depends on.
func (p placement) answerKey(port uint16, defaultPolicy policyName) answerKey {
	key := answerKey{probes: p.workload.probes[port]}
	if owner := p.owner(port); owner != nil {
		key.namespace, key.server = owner.GetNamespace(), owner.GetName()
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
