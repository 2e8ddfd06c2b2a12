package inbound

import (
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// index is the derived kinds from which inbound policy is made: each object of
// the cluster in the form that policy uses.
type index struct {
	messages              *messages
	pods                  *state.Kind[*workload]
	externalWorkloads     *state.Kind[*workload]
	servers               *state.Kind[*server]
	serverAuthorizations  *state.Kind[*serverAuthorization]
	authorizationPolicies *state.Kind[*authorizationPolicy]
	meshTLS               *state.Kind[*meshTLS]
	networks              *state.Kind[*network]
	routes                *gateway.Routes
	rateLimits            *state.Kind[*rateLimit]
	// granted are views, which answers use.
	granted *view.Set[reference, *authz]
}

func newIndex(st *state.State, d *deriver, routes *gateway.Routes) *index {
	return &index{
		messages:              d.messages,
		pods:                  state.DeriveJudging(st, "inbound-pod", state.Pods, d.pod),
		externalWorkloads:     state.DeriveJudging(st, "inbound-externalworkload", state.ExternalWorkloads, d.externalWorkload),
		servers:               state.DeriveJudging(st, "inbound-server", state.Servers, d.server),
		serverAuthorizations:  state.DeriveJudging(st, "inbound-serverauthorization", state.ServerAuthorizations, d.serverAuthorization),
		authorizationPolicies: state.DeriveJudging(st, "inbound-authorizationpolicy", state.AuthorizationPolicies, d.authorizationPolicy, policiesByTarget),
		meshTLS:               state.DeriveJudging(st, "inbound-meshtls", state.MeshTLSAuthentications, d.meshTLSAuthentication),
		networks:              state.DeriveJudging(st, "inbound-network", state.NetworkAuthentications, d.networkAuthentication),
		routes:                routes,
		rateLimits:            state.DeriveJudging(st, "inbound-ratelimit", state.HTTPLocalRateLimitPolicies, d.rateLimit, limitsByServer),
	}
}

// workloads is the kind that holds the workload.
func (ix *index) workloads(key workloadKey) *state.Kind[*workload] {
	if key.external {
		return ix.externalWorkloads
	}
	return ix.pods
}
