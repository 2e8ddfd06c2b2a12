package status

import (
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// former derives what status depends on from the cluster's objects.
type former struct{ log *slog.Logger }

// rateLimit is an HTTPLocalRateLimitPolicy for a Server. Immutable.
type rateLimit struct {
	metav1.Object
	server string
	stored []apis.Condition
}

// byServer has the namespace and name of the limited Server.
var byServer = state.NewIndex(0, "server", func(l *rateLimit) []string {
	return []string{target{serverKind, l.GetNamespace(), l.server}.key()}
})

// formRateLimit derives a policy, nil for one whose target is no Server: it gets no status.
func (f *former) formRateLimit(source *policyv1alpha1.HTTPLocalRateLimitPolicy, _ *rateLimit) *rateLimit {
	ref := source.Spec.TargetRef
	if !ref.Targets(apis.Group, string(serverKind)) {
		return nil
	}
	return &rateLimit{Object: source, server: ref.Name, stored: source.Status.Conditions}
}

// index is the derived kinds from which status is computed.
type index struct {
	// routes are in order of precedence: no route of a later rank has a parent
	// that one of an earlier rank has (policy-status 1.3).
	routes     [][]*state.Kind[*route]
	rateLimits *state.Kind[*rateLimit]
	// ranks are the places in routes of the kinds, by name.
	ranks map[string]int
}

func newIndex(st *state.State, f *former) *index {
	ix := &index{
		routes: [][]*state.Kind[*route]{
			{state.Derive(st, "status-grpcroute", state.GRPCRoutes, f.formGRPCRoute, byParent, byTarget)},
			{
				state.Derive(st, "status-policy-httproute", state.PolicyHTTPRoutes, f.formPolicyHTTPRoute, byParent, byTarget),
				state.Derive(st, "status-httproute", state.HTTPRoutes, f.formHTTPRoute, byParent, byTarget),
			},
			{state.Derive(st, "status-tlsroute", state.TLSRoutes, f.formTLSRoute, byParent, byTarget)},
			{state.Derive(st, "status-tcproute", state.TCPRoutes, f.formTCPRoute, byParent, byTarget)},
		},
		rateLimits: state.Derive(st, "status-ratelimit", state.HTTPLocalRateLimitPolicies, f.formRateLimit, byServer),
		ranks:      map[string]int{},
	}
	for rank, kinds := range ix.routes {
		for _, kind := range kinds {
			ix.ranks[kind.Name] = rank
		}
	}
	return ix
}

// object names an object that gets a status. Kind is the state's name for it.
type object struct{ kind, namespace, name string }

func objectOf[T state.Object](kind *state.Kind[T], obj metav1.Object) object {
	return object{kind.Name, obj.GetNamespace(), obj.GetName()}
}

// all calls add for every object that gets a status.
func (ix *index) all(r *state.Reader, add func(object)) {
	for egress := range state.All(r, state.EgressNetworks) {
		add(objectOf(state.EgressNetworks, egress))
	}
	for _, kinds := range ix.routes {
		for _, kind := range kinds {
			for route := range state.All(r, kind) {
				add(objectOf(kind, route))
			}
		}
	}
	for limit := range state.All(r, ix.rateLimits) {
		add(objectOf(ix.rateLimits, limit))
	}
}

// affected calls add for every object whose status depends on what changed.
// An object can come more than once.
func (ix *index) affected(r *state.Reader, change state.Change, add func(object)) {
	for version := range change.Versions() {
		switch obj := version.(type) {
		case *route:
			add(object{change.Kind.Name, obj.GetNamespace(), obj.GetName()})
			for _, p := range obj.parents {
				for _, kinds := range ix.routes[ix.ranks[change.Kind.Name]+1:] {
					ix.add(r, kinds, byParent, p.key(), add)
				}
			}
		case *rateLimit:
			ix.addLimits(r, target{serverKind, obj.GetNamespace(), obj.server}, add)
		case *policyv1alpha1.EgressNetwork:
			add(objectOf(state.EgressNetworks, obj))
			ix.addReferring(r, target{egressNetworkKind, obj.Namespace, obj.Name}, add)
		case metav1.Object:
			switch change.Kind {
			case &state.Services.KindInfo:
				ix.addReferring(r, target{serviceKind, obj.GetNamespace(), obj.GetName()}, add)
			case &state.Servers.KindInfo:
				server := target{serverKind, obj.GetNamespace(), obj.GetName()}
				ix.addReferring(r, server, add)
				ix.addLimits(r, server, add)
			}
		}
	}
}

func (ix *index) addReferring(r *state.Reader, t target, add func(object)) {
	for _, kinds := range ix.routes {
		ix.add(r, kinds, byTarget, t.key(), add)
	}
}

func (ix *index) add(r *state.Reader, kinds []*state.Kind[*route], by state.Index[*route], key string, add func(object)) {
	for _, kind := range kinds {
		for route := range state.By(r, kind, by, key) {
			add(objectOf(kind, route))
		}
	}
}

func (ix *index) addLimits(r *state.Reader, server target, add func(object)) {
	for limit := range state.By(r, ix.rateLimits, byServer, server.key()) {
		add(objectOf(ix.rateLimits, limit))
	}
}
