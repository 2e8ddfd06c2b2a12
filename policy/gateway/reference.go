package gateway

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Kind is a kind that a route's parents and backends can have.
type Kind string

// The kinds of parents and backends. A Server is no backend.
const (
	Server        Kind = "Server"
	Service       Kind = "Service"
	EgressNetwork Kind = "EgressNetwork"
	// OtherKind is every other kind.
	OtherKind Kind = ""
)

// CoreGroup is how the proxy API and status entries write the group without a name.
const CoreGroup = "core"

// Group is the API group of the kind.
func (k Kind) Group() string {
	if k == Service {
		return CoreGroup
	}
	return apis.Group
}

// Reference names an object. Its namespace is empty where the route names
// none: of a parent it never is.
type Reference struct {
	Kind            Kind
	Namespace, Name string
}

// String is the reference as a key of indexes.
func (r Reference) String() string { return string(r.Kind) + "/" + r.Namespace + "/" + r.Name }

// In is the reference with a namespace, the given one if it names none.
func (r Reference) In(namespace string) Reference {
	if r.Namespace == "" {
		r.Namespace = namespace
	}
	return r
}

// Attachment ties a route to a port of a parent, or with port 0 to all its ports.
type Attachment struct {
	Reference
	Port uint16
}

// String is the attachment as a key of indexes.
func (a Attachment) String() string { return a.Reference.String() + ":" + strconv.Itoa(int(a.Port)) }

// Parent is a parent of a kind that Linkerd knows.
type Parent struct {
	Attachment
	// Accepted tells whether the route's status says that the parent takes it.
	Accepted bool
	// foreign tells that a Server is named in a way that inbound policy has no
	// sense for: one of another namespace, or a part of it.
	foreign bool
	// badPort is the port that is none. Such a parent has no status.
	badPort *field.Error
}

// Judged tells whether the parent gets an entry in the route's status.
func (p Parent) Judged() bool { return p.badPort == nil }

// readParents reads the parents of a route; those of other kinds are left out.
func readParents(namespace string, refs []gatewayv1.ParentReference, statuses []gatewayv1.RouteParentStatus) []Parent {
	var parents []Parent
	for i, ref := range refs {
		kind := OtherKind
		if ref.Kind != nil {
			kind = KindOf(ref.Group, *ref.Kind)
		}
		if kind == OtherKind {
			continue
		}
		p := Parent{Attachment: Attachment{Reference: Reference{Kind: kind, Name: string(ref.Name)}.In(text(ref.Namespace)).In(namespace)}}
		if kind == Server {
			// It is referred to as a whole, whatever port the reference has.
			p.foreign = p.Namespace != namespace || ref.Port != nil || ref.SectionName != nil
		} else {
			p.Port = portOf(ref.Port)
			if ref.Port != nil && p.Port == 0 {
				p.badPort = field.Invalid(field.NewPath("spec", "parentRefs").Index(i).Child("port"), int(*ref.Port), "not within 1 to 65535")
			}
		}
		p.Accepted = accepted(statuses, p.Attachment)
		parents = append(parents, p)
	}
	return parents
}

// accepted tells whether some entry of a status accepts the parent: for a
// Server one of the policy controller (policy-inbound 8.1), for the others
// anybody's, in whatever namespace (policy-outbound 4).
func accepted(statuses []gatewayv1.RouteParentStatus, parent Attachment) bool {
	for _, status := range statuses {
		ref := status.ParentRef
		if string(ref.Name) != parent.Name || text(ref.Kind) != string(parent.Kind) {
			continue
		}
		if parent.Kind == Server {
			if status.ControllerName != linkerd.PolicyControllerName {
				continue
			}
		} else {
			if group := text(ref.Group); group != parent.Kind.Group() && (group != "" || parent.Kind != Service) {
				continue
			}
			if port := portOf(ref.Port); parent.Port != 0 && port != 0 && port != parent.Port {
				continue
			}
		}
		for _, condition := range status.Conditions {
			if condition.Type == string(gatewayv1.RouteConditionAccepted) && condition.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// KindOf is the kind that a reference names, without regard to case. An absent
// group is the core group.
func KindOf(group *gatewayv1.Group, kind gatewayv1.Kind) Kind {
	ref := apis.LocalTargetRef{Group: text(group), Kind: string(kind)}
	for _, known := range []Kind{Service, Server, EgressNetwork} {
		if ref.Targets(known.Group(), string(known)) {
			return known
		}
	}
	return OtherKind
}

// backendReference is what a backend names. A kind that is not given is Service.
func backendReference(ref gatewayv1.BackendObjectReference) Reference {
	kind := gatewayv1.Kind(Service)
	if ref.Kind != nil {
		kind = *ref.Kind
	}
	out := Reference{Kind: KindOf(ref.Group, kind), Namespace: text(ref.Namespace), Name: string(ref.Name)}
	if out.Kind == Server {
		out.Kind = OtherKind
	}
	return out
}

// portOf is 0 for a port that is absent or none.
func portOf(port *gatewayv1.PortNumber) uint16 {
	if port == nil || *port < 1 || *port > 65535 {
		return 0
	}
	return uint16(*port)
}

// text is "" for what is absent.
func text[T ~string](value *T) string {
	if value == nil {
		return ""
	}
	return string(*value)
}

// printed is a value as messages for clients name it.
func printed[T ~string](value *T, absent string) string {
	if value == nil {
		return absent
	}
	return fmt.Sprint(*value)
}
