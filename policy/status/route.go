package status

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// targetKind is a kind that a route's parents and backends can have.
type targetKind string

const (
	serverKind        targetKind = "Server"
	serviceKind       targetKind = "Service"
	egressNetworkKind targetKind = "EgressNetwork"
	// otherKind is every other kind. A backend of it is invalid.
	otherKind targetKind = ""
)

// target is an object that a route refers to.
type target struct {
	kind            targetKind
	namespace, name string
}

// key is the target's index key.
func (t target) key() string { return string(t.kind) + "/" + t.namespace + "/" + t.name }

// parent is a reference to a parent that gets a status entry.
type parent struct {
	target
	// port is 0 if the reference has none.
	port gatewayv1.PortNumber
}

// key is the index key of references that are identical (policy-status 1.3).
func (p parent) key() string { return p.target.key() + ":" + strconv.Itoa(int(p.port)) }

// route is what status depends on of a route of any kind. Immutable.
type route struct {
	metav1.Object
	parents  []parent
	backends []target
	stored   []gatewayv1.RouteParentStatus
}

// byParent has the key of each parent.
var byParent = state.NewIndex(0, "parent", func(r *route) []string {
	keys := make([]string, len(r.parents))
	for i, p := range r.parents {
		keys[i] = p.key()
	}
	return keys
})

func (f *former) formPolicyHTTPRoute(source *policyv1beta3.HTTPRoute, _ *route) *route {
	return f.form(source, source.Spec.CommonRouteSpec, httpBackends(source.Spec.Rules), source.Status.RouteStatus)
}

func (f *former) formHTTPRoute(source *gatewayv1.HTTPRoute, _ *route) *route {
	return f.form(source, source.Spec.CommonRouteSpec, httpBackends(source.Spec.Rules), source.Status.RouteStatus)
}

func (f *former) formGRPCRoute(source *gatewayv1.GRPCRoute, _ *route) *route {
	var backends []gatewayv1.BackendObjectReference
	for _, rule := range source.Spec.Rules {
		for _, backend := range rule.BackendRefs {
			backends = append(backends, backend.BackendObjectReference)
		}
	}
	return f.form(source, source.Spec.CommonRouteSpec, backends, source.Status.RouteStatus)
}

func (f *former) formTLSRoute(source *gatewayv1alpha2.TLSRoute, _ *route) *route {
	var backends []gatewayv1.BackendObjectReference
	for _, rule := range source.Spec.Rules {
		for _, backend := range rule.BackendRefs {
			backends = append(backends, backend.BackendObjectReference)
		}
	}
	return f.form(source, source.Spec.CommonRouteSpec, backends, source.Status.RouteStatus)
}

func (f *former) formTCPRoute(source *gatewayv1alpha2.TCPRoute, _ *route) *route {
	var backends []gatewayv1.BackendObjectReference
	for _, rule := range source.Spec.Rules {
		for _, backend := range rule.BackendRefs {
			backends = append(backends, backend.BackendObjectReference)
		}
	}
	return f.form(source, source.Spec.CommonRouteSpec, backends, source.Status.RouteStatus)
}

func httpBackends(rules []gatewayv1.HTTPRouteRule) []gatewayv1.BackendObjectReference {
	var backends []gatewayv1.BackendObjectReference
	for _, rule := range rules {
		for _, backend := range rule.BackendRefs {
			backends = append(backends, backend.BackendObjectReference)
		}
	}
	return backends
}

func (f *former) form(source metav1.Object, spec gatewayv1.CommonRouteSpec, backends []gatewayv1.BackendObjectReference, status gatewayv1.RouteStatus) *route {
	out := &route{Object: source, stored: status.Parents}
	for i, ref := range spec.ParentRefs {
		p, ok, err := parentOf(source.GetNamespace(), ref)
		if err != nil {
			f.log.Error("parent reference gets no status", "object", source.GetNamespace()+"/"+source.GetName(),
				"error", fmt.Errorf("spec.parentRefs[%d]: %w", i, err))
		} else if ok {
			out.parents = append(out.parents, p)
		}
	}
	for _, backend := range backends {
		out.backends = append(out.backends, backendOf(source.GetNamespace(), backend))
	}
	return out
}

// parentOf reads a parent reference; ok is false for kinds that are not
// ours. A Server is referred to as a whole, whatever port the reference has.
func parentOf(namespace string, ref gatewayv1.ParentReference) (p parent, ok bool, err error) {
	if ref.Kind == nil {
		return parent{}, false, nil
	}
	p.kind = kindOf((*string)(ref.Group), string(*ref.Kind))
	if p.kind == otherKind {
		return parent{}, false, nil
	}
	p.namespace, p.name = namespace, string(ref.Name)
	if ref.Namespace != nil {
		p.namespace = string(*ref.Namespace)
	}
	if ref.Port != nil && p.kind != serverKind {
		if *ref.Port < 1 || *ref.Port > 65535 {
			return parent{}, false, fmt.Errorf("port %d is not within 1 to 65535", *ref.Port)
		}
		p.port = *ref.Port
	}
	return p, true, nil
}

// backendOf reads a backend reference, in the namespace of the route unless it
// names one (outbound policy takes the parent's, policy-status 1.2).
func backendOf(namespace string, ref gatewayv1.BackendObjectReference) target {
	kind := string(serviceKind)
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	t := target{kindOf((*string)(ref.Group), kind), namespace, string(ref.Name)}
	if ref.Namespace != nil {
		t.namespace = string(*ref.Namespace)
	}
	return t
}

// kindOf finds the kind that a reference names, without regard to case. An
// absent group is the core group.
func kindOf(group *string, kind string) targetKind {
	ref := apis.LocalTargetRef{Kind: kind}
	if group != nil {
		ref.Group = *group
	}
	switch {
	case ref.Targets("", string(serviceKind)):
		return serviceKind
	case ref.Targets(apis.Group, string(serverKind)):
		return serverKind
	case ref.Targets(apis.Group, string(egressNetworkKind)):
		return egressNetworkKind
	}
	return otherKind
}

// none tells whether a clusterIP is that of a headless Service.
func none(clusterIP string) bool { return clusterIP == "" || strings.EqualFold(clusterIP, "None") }
