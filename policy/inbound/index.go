package inbound

import (
	"errors"
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

func newIndex(st *state.State, f *former) (*index, error) {
	var errs []error
	ix := &index{
		messages:              f.messages,
		log:                   f.log,
		pods:                  derive(&errs, st, "inbound-pod", state.Pods, f.formPod),
		externalWorkloads:     derive(&errs, st, "inbound-externalworkload", state.ExternalWorkloads, f.formExternalWorkload),
		servers:               derive(&errs, st, "inbound-server", state.Servers, f.formServer),
		serverAuthorizations:  derive(&errs, st, "inbound-serverauthorization", state.ServerAuthorizations, f.formServerAuthorization),
		authorizationPolicies: derive(&errs, st, "inbound-authorizationpolicy", state.AuthorizationPolicies, f.formAuthorizationPolicy, policiesByTarget),
		meshTLS:               derive(&errs, st, "inbound-meshtls", state.MeshTLSAuthentications, f.formMeshTLS),
		networks:              derive(&errs, st, "inbound-network", state.NetworkAuthentications, f.formNetwork),
		policyHTTPRoutes:      derive(&errs, st, "inbound-policy-httproute", state.PolicyHTTPRoutes, f.formPolicyHTTPRoute, routesByServer),
		httpRoutes:            derive(&errs, st, "inbound-httproute", state.HTTPRoutes, f.formHTTPRoute, routesByServer),
		grpcRoutes:            derive(&errs, st, "inbound-grpcroute", state.GRPCRoutes, f.formGRPCRoute, routesByServer),
		rateLimits:            derive(&errs, st, "inbound-ratelimit", state.HTTPLocalRateLimitPolicies, f.formRateLimit, limitsByServer),
	}
	return ix, errors.Join(errs...)
}

func derive[T, D state.Object](errs *[]error, st *state.State, name string, source *state.Kind[T], form func(T, D) D, indexes ...state.Index[D]) *state.Kind[D] {
	kind, err := state.Derive(st, name, source, form, indexes...)
	if err != nil {
		*errs = append(*errs, err)
	}
	return kind
}

// workloads is the kind that holds the workload.
func (ix *index) workloads(key workloadKey) *state.Kind[*workload] {
	if key.external {
		return ix.externalWorkloads
	}
	return ix.pods
}
