package status

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// The condition types that are written.
const (
	acceptedType     = "Accepted"
	resolvedRefsType = "ResolvedRefs"
)

// verdict is one condition, without the time.
type verdict struct {
	condition, reason, message string
	ok                         bool
}

func accepted() verdict { return verdict{condition: acceptedType, reason: "Accepted", ok: true} }

func refused(reason, message string) verdict {
	return verdict{condition: acceptedType, reason: reason, message: message}
}

func (v verdict) status() metav1.ConditionStatus {
	if v.ok {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// gateway is the verdict in the form of the Gateway API.
func (v verdict) gateway() metav1.Condition {
	return metav1.Condition{Type: v.condition, Status: v.status(), Reason: v.reason, Message: v.message}
}

// linkerd is the verdict in the form of Linkerd's kinds.
func (v verdict) linkerd() apis.Condition {
	return apis.Condition{Type: v.condition, Status: v.status(), Reason: v.reason, Message: v.message}
}

// routeParents is the status of a route: the entries of other controllers,
// then one for each parent in order (policy-status 2). It differs from the
// stored one if differs is true.
func (ix *index) routeParents(r *state.Reader, rank int, route *gateway.Route) (parents []gatewayv1.RouteParentStatus, differs bool) {
	parents = []gatewayv1.RouteParentStatus{}
	for _, entry := range route.Stored {
		if entry.ControllerName != linkerd.PolicyControllerName {
			parents = append(parents, entry)
		}
	}
	for _, p := range route.Parents {
		if !p.Judged() {
			continue
		}
		conditions := []metav1.Condition{ix.parentAccepted(r, rank, p.Attachment).gateway()}
		if p.Kind != gateway.Server {
			conditions = append(conditions, resolved(r, route, p.Reference).gateway())
		}
		parents = append(parents, gatewayv1.RouteParentStatus{
			ParentRef:      reference(p.Attachment),
			ControllerName: linkerd.PolicyControllerName,
			Conditions:     conditions,
		})
	}
	return parents, !sameParents(parents, route.Stored)
}

// reference is the parent as a status entry names it.
func reference(p gateway.Attachment) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{
		Group: ptr.To(gatewayv1.Group(p.Kind.Group())), Kind: ptr.To(gatewayv1.Kind(p.Kind)),
		Namespace: ptr.To(gatewayv1.Namespace(p.Namespace)), Name: gatewayv1.ObjectName(p.Name),
	}
	if p.Port != 0 {
		ref.Port = ptr.To(gatewayv1.PortNumber(p.Port))
	}
	return ref
}

// parentAccepted judges whether a route of that rank may have the parent
// (policy-status 1.1 and 1.3).
func (ix *index) parentAccepted(r *state.Reader, rank int, p gateway.Attachment) verdict {
	const noParent = "NoMatchingParent"
	switch p.Kind {
	case gateway.Server:
		if _, ok := state.Get(r, state.Servers, p.Namespace, p.Name); !ok {
			return refused(noParent, "")
		}
	case gateway.Service:
		service, ok := state.Get(r, state.Services, p.Namespace, p.Name)
		if !ok {
			return refused(noParent, "")
		}
		if none(service.Spec.ClusterIP) || service.Spec.Type == "ExternalName" {
			return refused(noParent, "parent service must have a ClusterIP")
		}
	case gateway.EgressNetwork:
		egress, ok := state.Get(r, state.EgressNetworks, p.Namespace, p.Name)
		if !ok {
			return refused(noParent, "")
		}
		if !slices.ContainsFunc(egress.Status.Conditions, func(c apis.Condition) bool {
			return c.Type == acceptedType && c.Status == metav1.ConditionTrue
		}) {
			return refused(noParent, "EgressNetwork parent has not been accepted")
		}
	}
	for _, kinds := range ix.routes[:rank] {
		for _, kind := range kinds {
			for other := range state.By(r, kind, gateway.ByAttachment, p.String()) {
				if slices.ContainsFunc(other.Parents, func(q gateway.Parent) bool { return q.Attachment == p && q.Judged() }) {
					return refused("RouteReasonConflicted", "")
				}
			}
		}
	}
	return accepted()
}

// resolved judges all backends of a route against one parent (policy-status
// 1.2). They are in the namespace of the route unless they name one; outbound
// policy takes the parent's.
func resolved(r *state.Reader, route *gateway.Route, parent gateway.Reference) verdict {
	bad := func(reason, message string) verdict {
		return verdict{condition: resolvedRefsType, reason: reason, message: message}
	}
	for _, backend := range route.Backends {
		backend = backend.In(route.GetNamespace())
		switch backend.Kind {
		case gateway.Service:
			if _, ok := state.Get(r, state.Services, backend.Namespace, backend.Name); !ok {
				return bad("BackendNotFound", "")
			}
		case gateway.EgressNetwork:
			if _, ok := state.Get(r, state.EgressNetworks, backend.Namespace, backend.Name); !ok {
				return bad("BackendNotFound", "")
			}
			if backend != parent {
				return bad("InvalidKind", "EgressNetwork backend needs to be on a route that has an EgressNetwork parent")
			}
		default:
			return bad("InvalidKind", "")
		}
	}
	return verdict{condition: resolvedRefsType, reason: "ResolvedRefs", ok: true}
}

// none tells whether a clusterIP is that of a headless Service.
func none(clusterIP string) bool { return clusterIP == "" || strings.EqualFold(clusterIP, "None") }

// egressConditions is the status of an EgressNetwork (policy-status 1.4).
func egressConditions(egress *policyv1alpha1.EgressNetwork, clusterNetworks []netip.Prefix) (conditions []apis.Condition, differs bool) {
	for _, condition := range egress.Status.Conditions {
		if condition.Type != acceptedType {
			conditions = append(conditions, condition)
		}
	}
	judged := accepted()
	if overlaps(egress.Spec.Networks, clusterNetworks) {
		judged = refused("EgressReasonNetworkOverlap", "networks overlap with clusterNetworks")
	}
	conditions = append(conditions, judged.linkerd())
	return conditions, !sameConditions(conditions, egress.Status.Conditions)
}

// overlaps tells whether a network reaches into the cluster: it and a cluster
// network contain one another, and none of its exceptions has all of the
// cluster network. Exceptions that do so together do not help.
func overlaps(networks []apis.Network, clusterNetworks []netip.Prefix) bool {
	for _, n := range networks {
		cidr, err := n.CIDR.Prefix()
		if err != nil {
			continue // such an object does not decode
		}
		for _, cluster := range clusterNetworks {
			if !cidr.Overlaps(cluster) {
				continue
			}
			if !slices.ContainsFunc(n.Except, func(except apis.CIDR) bool { return contains(except, cluster) }) {
				return true
			}
		}
	}
	return false
}

func contains(outer apis.CIDR, inner netip.Prefix) bool {
	prefix, err := outer.Prefix()
	return err == nil && prefix.Bits() <= inner.Bits() && prefix.Overlaps(inner)
}

// limitConditions is the status of a rate limit (policy-status 1.5).
func (ix *index) limitConditions(r *state.Reader, limit *rateLimit) (conditions []apis.Condition, differs bool) {
	judged := accepted()
	if _, ok := state.Get(r, state.Servers, limit.GetNamespace(), limit.server); !ok {
		judged = refused("NoMatchingTarget", "")
	} else {
		for other := range state.By(r, ix.rateLimits, byServer, limits(limit.GetNamespace(), limit.server)) {
			if other.before(limit) {
				judged = refused("RateLimitReasonAlreadyExists", "")
			}
		}
	}
	conditions = []apis.Condition{judged.linkerd()}
	return conditions, !sameConditions(conditions, limit.stored)
}

// before tells which of two limits of one Server counts.
func (l *rateLimit) before(other *rateLimit) bool {
	a, b := l.GetCreationTimestamp(), other.GetCreationTimestamp()
	if a.IsZero() != b.IsZero() {
		return b.IsZero()
	}
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(l.GetName(), other.GetName())) < 0
}

// sameParents compares without regard to times and to the order of entries
// for different objects (policy-status 2.1).
func sameParents(a, b []gatewayv1.RouteParentStatus) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortStableFunc(a, compareEntries)
	slices.SortStableFunc(b, compareEntries)
	return slices.EqualFunc(a, b, func(a, b gatewayv1.RouteParentStatus) bool {
		return a.ControllerName == b.ControllerName && sameReference(a.ParentRef, b.ParentRef) &&
			slices.EqualFunc(a.Conditions, b.Conditions, func(a, b metav1.Condition) bool {
				a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
				return a == b
			})
	})
}

func compareEntries(a, b gatewayv1.RouteParentStatus) int {
	return cmp.Or(
		cmp.Compare(a.ControllerName, b.ControllerName),
		cmp.Compare(a.ParentRef.Name, b.ParentRef.Name),
		cmp.Compare(ptr.Deref(a.ParentRef.Namespace, ""), ptr.Deref(b.ParentRef.Namespace, "")),
	)
}

func sameReference(a, b gatewayv1.ParentReference) bool {
	return a.Name == b.Name && ptr.Equal(a.Group, b.Group) && ptr.Equal(a.Kind, b.Kind) && ptr.Equal(a.Namespace, b.Namespace) &&
		ptr.Equal(a.Port, b.Port) && ptr.Equal(a.SectionName, b.SectionName)
}

func sameConditions(a, b []apis.Condition) bool {
	return slices.EqualFunc(a, b, func(a, b apis.Condition) bool {
		a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
		return a == b
	})
}
