package inbound

import (
	"log/slog"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// index is the derived kinds from which inbound policy is made: each object of
// the cluster in the form that policy uses.
type index struct {
	messages              *messages
	log                   *slog.Logger
	pods                  *state.Kind[*workload]
	externalWorkloads     *state.Kind[*workload]
	servers               *state.Kind[*server]
	serverAuthorizations  *state.Kind[*serverAuthorization]
	authorizationPolicies *state.Kind[*authorizationPolicy]
	meshTLS               *state.Kind[*meshTLS]
	networks              *state.Kind[*network]
	policyHTTPRoutes      *state.Kind[*route]
	httpRoutes            *state.Kind[*route]
	grpcRoutes            *state.Kind[*route]
	rateLimits            *state.Kind[*rateLimit]
}

func newIndex(st *state.State, f *former) *index {
	return &index{
		messages:              f.messages,
		log:                   f.log,
		pods:                  state.Derive(st, "inbound-pod", state.Pods, f.formPod),
		externalWorkloads:     state.Derive(st, "inbound-externalworkload", state.ExternalWorkloads, f.formExternalWorkload),
		servers:               state.Derive(st, "inbound-server", state.Servers, f.formServer),
		serverAuthorizations:  state.Derive(st, "inbound-serverauthorization", state.ServerAuthorizations, f.formServerAuthorization),
		authorizationPolicies: state.Derive(st, "inbound-authorizationpolicy", state.AuthorizationPolicies, f.formAuthorizationPolicy, policiesByTarget),
		meshTLS:               state.Derive(st, "inbound-meshtls", state.MeshTLSAuthentications, f.formMeshTLS),
		networks:              state.Derive(st, "inbound-network", state.NetworkAuthentications, f.formNetwork),
		policyHTTPRoutes:      state.Derive(st, "inbound-policy-httproute", state.PolicyHTTPRoutes, f.formPolicyHTTPRoute, routesByServer),
		httpRoutes:            state.Derive(st, "inbound-httproute", state.HTTPRoutes, f.formHTTPRoute, routesByServer),
		grpcRoutes:            state.Derive(st, "inbound-grpcroute", state.GRPCRoutes, f.formGRPCRoute, routesByServer),
		rateLimits:            state.Derive(st, "inbound-ratelimit", state.HTTPLocalRateLimitPolicies, f.formRateLimit, limitsByServer),
	}
}

// workloads is the kind that holds the workload.
func (ix *index) workloads(key workloadKey) *state.Kind[*workload] {
	if key.external {
		return ix.externalWorkloads
	}
	return ix.pods
}
