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
}

func newIndex(st *state.State, f *former) *index {
	return &index{
		routes: [][]*state.Kind[*route]{
			{state.Derive(st, "status-grpcroute", state.GRPCRoutes, f.formGRPCRoute, byParent)},
			{
				state.Derive(st, "status-policy-httproute", state.PolicyHTTPRoutes, f.formPolicyHTTPRoute, byParent),
				state.Derive(st, "status-httproute", state.HTTPRoutes, f.formHTTPRoute, byParent),
			},
			{state.Derive(st, "status-tlsroute", state.TLSRoutes, f.formTLSRoute, byParent)},
			{state.Derive(st, "status-tcproute", state.TCPRoutes, f.formTCPRoute, byParent)},
		},
		rateLimits: state.Derive(st, "status-ratelimit", state.HTTPLocalRateLimitPolicies, f.formRateLimit, byServer),
	}
}

// kinds are those whose objects get a status.
func (ix *index) kinds() []*state.KindInfo {
	kinds := []*state.KindInfo{&state.EgressNetworks.KindInfo, &ix.rateLimits.KindInfo}
	for _, rank := range ix.routes {
		for _, kind := range rank {
			kinds = append(kinds, &kind.KindInfo)
		}
	}
	return kinds
}
