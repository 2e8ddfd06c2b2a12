package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// rateLimit is an HTTPLocalRateLimitPolicy for a Server. Immutable.
type rateLimit struct {
	metav1.Object
	server string
	stored []apis.Condition
}

// limits is the key of the rate limits of a Server.
func limits(namespace, server string) string {
	return gateway.Reference{Kind: gateway.Server, Namespace: namespace, Name: server}.String()
}

// byServer has the namespace and name of the limited Server.
var byServer = state.NewIndex(0, "server", func(l *rateLimit) []string {
	return []string{limits(l.GetNamespace(), l.server)}
})

// readRateLimit derives a policy, nil for one whose target is no Server: it gets no status.
func readRateLimit(source *policyv1alpha1.HTTPLocalRateLimitPolicy, _ *rateLimit) *rateLimit {
	ref := source.Spec.TargetRef
	if !ref.Targets(apis.Group, string(gateway.Server)) {
		return nil
	}
	return &rateLimit{Object: source, server: ref.Name, stored: source.Status.Conditions}
}

// index is the derived kinds from which status is computed.
type index struct {
	// routes are in order of precedence: no route of a later rank has a parent
	// that one of an earlier rank has (policy-status 1.3).
	routes     [][]*state.Kind[*gateway.Route]
	rateLimits *state.Kind[*rateLimit]
}

func newIndex(st *state.State, routes *gateway.Routes) *index {
	return &index{
		routes:     [][]*state.Kind[*gateway.Route]{{routes.GRPC}, {routes.PolicyHTTP, routes.HTTP}, {routes.TLS}, {routes.TCP}},
		rateLimits: state.Derive(st, "status-ratelimit", state.HTTPLocalRateLimitPolicies, readRateLimit, byServer),
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
