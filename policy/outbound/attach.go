package outbound

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// Kinds that can be parents and backends.
const (
	serviceKind = "Service"
	egressKind  = "EgressNetwork"
	coreGroup   = "core"
)

// attachment ties a route to a port of a parent, or with port 0 to all ports of a Service.
type attachment struct {
	parentKey
	port uint16
}

// parents are the parents that a route of this namespace names.
func parents(namespace string, refs []gatewayv1.ParentReference) []attachment {
	var out []attachment
	for _, ref := range refs {
		if a, ok := parseParentRef(namespace, ref); ok {
			out = append(out, a)
		}
	}
	return out
}

// accepted are those of the parents that the route's status says have accepted
// it (policy-outbound 4). Naming a parent alone, or being accepted by one that
// is not named any more, attaches to nothing.
func accepted(parents []attachment, statuses []gatewayv1.RouteParentStatus) []attachment {
	var out []attachment
	for _, a := range parents {
		if acceptedBy(statuses, a) {
			out = append(out, a)
		}
	}
	return out
}

func parseParentRef(namespace string, ref gatewayv1.ParentReference) (attachment, bool) {
	if ref.Kind == nil {
		return attachment{}, false
	}
	kind, ok := targetKind(ref.Group, string(*ref.Kind))
	if !ok {
		return attachment{}, false
	}
	a := attachment{parentKey{kind == egressKind, namespace, string(ref.Name)}, portOf(ref.Port)}
	if ref.Namespace != nil && *ref.Namespace != "" {
		a.namespace = string(*ref.Namespace)
	}
	// An EgressNetwork has no ports that a route could be attached to all of.
	return a, a.port != 0 || !a.egress
}

// targetKind recognises the two kinds, without regard to case.
func targetKind(group *gatewayv1.Group, kind string) (string, bool) {
	switch {
	case strings.EqualFold(kind, serviceKind) && strings.EqualFold(groupOf(group), coreGroup):
		return serviceKind, true
	case strings.EqualFold(kind, egressKind) && group != nil && strings.EqualFold(string(*group), apis.Group):
		return egressKind, true
	}
	return "", false
}

// groupOf names the group without a name, which may also be written "core".
func groupOf(group *gatewayv1.Group) string {
	if group == nil || *group == "" {
		return coreGroup
	}
	return string(*group)
}

// portOf is 0 for a port that is absent or none.
func portOf(port *gatewayv1.PortNumber) uint16 {
	if port == nil || *port < 1 || *port > 65535 {
		return 0
	}
	return uint16(*port)
}

// acceptedBy tells whether some entry of the status accepts the parent. Whose
// entry it is does not matter, nor does its namespace.
func acceptedBy(statuses []gatewayv1.RouteParentStatus, a attachment) bool {
	kind, group := serviceKind, coreGroup
	if a.egress {
		kind, group = egressKind, apis.Group
	}
	for _, status := range statuses {
		ref := status.ParentRef
		if string(ref.Name) != a.name || ref.Kind == nil || string(*ref.Kind) != kind || groupOf(ref.Group) != group {
			continue
		}
		if port := portOf(ref.Port); a.port != 0 && port != 0 && port != a.port {
			continue
		}
		for _, condition := range status.Conditions {
			if condition.Type == string(gatewayv1.RouteConditionAccepted) && condition.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}
