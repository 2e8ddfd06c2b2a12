package status

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// plan is the status that an object should have. Immutable.
type plan struct {
	// version is that of the object whose status is to be replaced.
	version string
	// status is nil if the stored one is right, or if there is no such object.
	status document
}

// document is the status of an object of some kind.
type document interface {
	// at returns what is written when it is decided at now: every condition of ours gets that time.
	at(now metav1.Time) any
}

var _ reconcile.Plan = plan{}

// Empty is part of reconcile.Plan.
func (p plan) Empty() bool { return p.status == nil }

// Version is part of reconcile.Plan. A plan is about one object.
func (p plan) Version(string) string { return p.version }

// samePlan leaves the version out where nothing is to be written.
func samePlan(a, b plan) bool {
	if a.Empty() || b.Empty() {
		return a.Empty() && b.Empty()
	}
	return a.version == b.version && reflect.DeepEqual(a.status, b.status)
}

// plan is the function of the views: what has to be done so that an object's
// status is what it should be.
func (w *Writer) plan(r *view.Reader, key reconcile.Key, _ *plan) plan {
	switch key.Kind {
	case &state.EgressNetworks.KindInfo:
		if egress, ok := state.Get(r.Reader, state.EgressNetworks, key.Namespace, key.Name); ok {
			if conditions, differs := egressConditions(egress, w.clusterNetworks); differs {
				return plan{egress.ResourceVersion, egressStatus{conditions}}
			}
		}
		return plan{}
	case &w.index.rateLimits.KindInfo:
		if limit, ok := state.Get(r.Reader, w.index.rateLimits, key.Namespace, key.Name); ok {
			if conditions, differs := w.index.limitConditions(r.Reader, limit); differs {
				return plan{limit.GetResourceVersion(), limitStatus{conditions, limit.server}}
			}
		}
		return plan{}
	}
	for rank, kinds := range w.index.routes {
		for _, kind := range kinds {
			if key.Kind != &kind.KindInfo {
				continue
			}
			if route, ok := state.Get(r.Reader, kind, key.Namespace, key.Name); ok {
				if parents, differs := w.index.routeParents(r.Reader, rank, route); differs {
					return plan{route.GetResourceVersion(), routeStatus{parents}}
				}
			}
		}
	}
	return plan{}
}

// The forms of status.
type (
	routeStatus struct {
		parents []gatewayv1.RouteParentStatus
	}
	egressStatus struct {
		conditions []apis.Condition
	}
	limitStatus struct {
		conditions []apis.Condition
		server     string
	}
)

func (s routeStatus) at(now metav1.Time) any {
	out := struct {
		Parents []gatewayv1.RouteParentStatus `json:"parents"`
	}{make([]gatewayv1.RouteParentStatus, len(s.parents))}
	for i, entry := range s.parents {
		if entry.ControllerName == linkerd.PolicyControllerName {
			entry = *entry.DeepCopy()
			for n := range entry.Conditions {
				entry.Conditions[n].LastTransitionTime = now
			}
		}
		out.Parents[i] = entry
	}
	return out
}

func (s egressStatus) at(now metav1.Time) any {
	return struct {
		Conditions []condition `json:"conditions"`
	}{written(s.conditions, now)}
}

func (s limitStatus) at(now metav1.Time) any {
	return struct {
		Conditions []condition                    `json:"conditions"`
		TargetRef  policyv1alpha1.StatusTargetRef `json:"targetRef"`
	}{written(s.conditions, now), policyv1alpha1.StatusTargetRef{Group: apis.Group, Kind: string(gateway.Server), Name: s.server}}
}

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

func written(conditions []apis.Condition, now metav1.Time) []condition {
	out := make([]condition, len(conditions))
	for i, c := range conditions {
		out[i] = condition(c)
		if c.Type == acceptedType {
			out[i].LastTransitionTime = now
		}
	}
	return out
}
