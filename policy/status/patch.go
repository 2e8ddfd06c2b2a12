package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// patch is a merge patch of an object's status subresource. Lists are replaced
// as a whole, so it names the version that it was made from: entries that
// another controller adds in the meantime are not lost, the patch is refused
// instead (B66).
type patch struct {
	kind *state.KindInfo

	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   patchMetadata `json:"metadata"`
	Status     any           `json:"status"`
}

type patchMetadata struct {
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// The forms of status.
type (
	routeStatus struct {
		Parents []gatewayv1.RouteParentStatus `json:"parents"`
	}
	egressStatus struct {
		Conditions []condition `json:"conditions"`
	}
	limitStatus struct {
		Conditions []condition                    `json:"conditions"`
		TargetRef  policyv1alpha1.StatusTargetRef `json:"targetRef"`
	}
)

// condition is an apis.Condition as it is written (policy-status 1): its
// message is there even if empty. A condition of somebody else that has no time
// gets none, as null would be refused.
type condition struct {
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
	Status             metav1.ConditionStatus `json:"status,omitempty"`
	Type               string                 `json:"type,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message"`
}

func written(conditions []apis.Condition) []condition {
	out := make([]condition, len(conditions))
	for i, c := range conditions {
		out[i] = condition(c)
	}
	return out
}

func newPatch(kind *state.KindInfo, obj metav1.Object, status any) *patch {
	return &patch{
		kind:       kind,
		APIVersion: kind.GVK.GroupVersion().String(),
		Kind:       kind.GVK.Kind,
		Metadata:   patchMetadata{obj.GetNamespace(), obj.GetName(), obj.GetResourceVersion()},
		Status:     status,
	}
}

// patch returns what makes an object's status what it should be, decided at
// now. It returns false if that is what it is, or if there is no such object.
func (w *Writer) patch(r *state.Reader, obj object, now metav1.Time) (*patch, bool) {
	switch obj.kind {
	case state.EgressNetworks.Name:
		egress, ok := state.Get(r, state.EgressNetworks, obj.namespace, obj.name)
		if !ok {
			return nil, false
		}
		conditions, differs := egressConditions(egress, w.clusterNetworks, now)
		return newPatch(&state.EgressNetworks.KindInfo, egress, egressStatus{written(conditions)}), differs
	case w.index.rateLimits.Name:
		limit, ok := state.Get(r, w.index.rateLimits, obj.namespace, obj.name)
		if !ok {
			return nil, false
		}
		conditions, differs := w.index.limitConditions(r, limit, now)
		ref := policyv1alpha1.StatusTargetRef{Group: apis.Group, Kind: string(serverKind), Name: limit.server}
		return newPatch(&w.index.rateLimits.KindInfo, limit, limitStatus{written(conditions), ref}), differs
	}
	rank := w.index.ranks[obj.kind]
	for _, kind := range w.index.routes[rank] {
		if kind.Name != obj.kind {
			continue
		}
		route, ok := state.Get(r, kind, obj.namespace, obj.name)
		if !ok {
			return nil, false
		}
		parents, differs := w.index.routeParents(r, rank, route, now)
		return newPatch(&kind.KindInfo, route, routeStatus{parents}), differs
	}
	return nil, false
}
