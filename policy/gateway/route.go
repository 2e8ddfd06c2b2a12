package gateway

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// Protocol is what a kind of route is about; HTTPRoutes of both groups are one.
type Protocol int

// The protocols, in order of precedence on one parent (policy-status 1.3),
// but for the first two.
const (
	HTTP Protocol = iota
	GRPC
	TLS
	TCP
	Protocols
)

// Route is a route of any kind, read once for all who use it. Immutable.
type Route struct {
	metav1.Object
	Group, Kind string
	Protocol    Protocol
	// Parents, Backends and Stored, the status, are those of the present
	// version, whether it can be used or not. Backends are those of all rules.
	Parents  []Parent
	Backends []Reference
	Stored   []gatewayv1.RouteParentStatus
	// Inbound is what is in force on Servers, and Outbound on Services and
	// EgressNetworks: the last version that could be used. They differ in what a
	// version must have for that. Nil is a route that has no parents of that side,
	// or never had such a version.
	Inbound, Outbound *Version
}

// ForServers tells whether the route has Servers as parents.
func (r *Route) ForServers() bool { return len(servers(r.Parents)) > 0 }

// Version is a version of a route as proxies are told of it, as far as it does
// not depend on the parent. Immutable.
type Version struct {
	Created time.Time
	// Attached are the parents that have accepted it.
	Attached []Attachment
	Hosts    []*http_route.HostMatch
	Rules    []Rule
	// HTTPRetry and GRPCRetry are nil where the parent's apply.
	HTTPRetry *pb.HttpRoute_Retry
	GRPCRetry *pb.GrpcRoute_Retry
}

// AttachedTo tells whether the version is one of the port of a parent.
func (v *Version) AttachedTo(parent Reference, port uint16) bool {
	return slices.ContainsFunc(v.Attached, func(a Attachment) bool {
		return a.Reference == parent && (a.Port == 0 || a.Port == port)
	})
}

// CompareOutbound orders routes in an outbound policy (policy-outbound 3.4).
func CompareOutbound(a, b *Route) int { return compare(a, a.Outbound.Created, b, b.Outbound.Created) }

// CompareInbound orders the routes of a Server (policy-inbound 8.3).
func CompareInbound(a, b *Route) int { return compare(a, a.Inbound.Created, b, b.Inbound.Created) }

// compare puts the oldest first, and those without a time of creation last.
func compare(a *Route, createdA time.Time, b *Route, createdB time.Time) int {
	if createdA.IsZero() != createdB.IsZero() {
		if createdA.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(
		createdA.Compare(createdB),
		strings.Compare(a.GetName(), b.GetName()),
		strings.Compare(a.GetNamespace(), b.GetNamespace()),
		strings.Compare(a.Group, b.Group),
		strings.Compare(a.Kind, b.Kind),
	)
}

// readRoute reads a version of a route, and says what is wrong with it. previous is
// what was made of the version before, nil if there was none.
func readRoute(object metav1.Object, s source, previous *Route) (*Route, []problems.Problem) {
	if previous != nil && previous.GetUID() != object.GetUID() {
		previous = nil
	}
	out := &Route{
		Object: object, Group: s.group, Kind: s.kind, Protocol: s.protocol,
		Parents: readParents(object.GetNamespace(), s.spec.ParentRefs, s.status.Parents),
		Stored:  s.status.Parents,
	}
	for _, backends := range s.backends {
		for _, backend := range backends {
			out.Backends = append(out.Backends, backend.Reference)
		}
	}
	var found []problems.Problem
	for _, parent := range out.Parents {
		if port := problems.Of(parent.badPort); port != nil {
			port.Instead = "this parent gets no status"
			found = append(found, *port)
		}
	}
	inForce := func(direction string, parents []Parent, outbound bool, last *Version) *Version {
		if len(parents) == 0 {
			return nil
		}
		v, err := s.version(object, parents, outbound)
		if err != nil {
			found = append(found, problems.Unusable("cannot be used for "+direction+" policy", err, last != nil))
			return last
		}
		return v
	}
	var last Route
	if previous != nil {
		last = *previous
	}
	out.Inbound = inForce("inbound", servers(out.Parents), false, last.Inbound)
	out.Outbound = inForce("outbound", trafficParents(out.Parents), true, last.Outbound)
	return out, found
}

// version converts a route for some of its parents.
func (s source) version(object metav1.Object, parents []Parent, outbound bool) (*Version, error) {
	v := &Version{Created: object.GetCreationTimestamp().Time, Hosts: Hosts(s.hostnames)}
	for _, parent := range parents {
		if parent.Accepted {
			v.Attached = append(v.Attached, parent.Attachment)
		}
	}
	rules, err := s.rules()
	if err != nil {
		return nil, err
	}
	v.Rules = rules
	if !outbound {
		return v, nil
	}
	for i := range v.Rules {
		v.Rules[i].Backends = s.backends[i]
	}
	if s.settings != nil {
		if err := s.settings(object.GetAnnotations(), v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// servers are the Servers among the parents, each once (policy-inbound 8.1). A
// Server of another namespace, or a part of one, disqualifies the whole route.
func servers(parents []Parent) []Parent {
	var out []Parent
	for _, p := range parents {
		switch {
		case p.Kind != Server || p.Name == "":
		case p.foreign:
			return nil
		case !slices.ContainsFunc(out, func(other Parent) bool { return other.Name == p.Name }):
			out = append(out, p)
		}
	}
	return out
}

// trafficParents are the parents of outbound traffic (policy-outbound 4). An
// EgressNetwork has no ports that a route could be attached to all of.
func trafficParents(parents []Parent) []Parent {
	return slices.DeleteFunc(slices.Clone(parents), func(p Parent) bool {
		return p.Kind == Server || p.Kind == EgressNetwork && p.Port == 0
	})
}
