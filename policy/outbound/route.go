package outbound

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/tls_route"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/routes"
)

// routeKind is a protocol's kind of route; HTTPRoutes of both groups are one.
type routeKind int

const (
	httpRoutes routeKind = iota
	grpcRoutes
	tlsRoutes
	tcpRoutes
	routeKinds
)

// route is a route of any kind that at least one parent has accepted, in the
// form of messages as far as it does not depend on the parent. Immutable.
type route struct {
	metav1.Object
	// problem says why the present version cannot be used. The route is then
	// the last one that could, or attached to nothing.
	problem string

	group    string
	kind     routeKind
	created  time.Time
	attached []attachment

	metadata *meta.Metadata
	// retries are set if the route has some of its own.
	httpRetry *pb.HttpRoute_Retry
	grpcRetry *pb.GrpcRoute_Retry

	hosts []*http_route.HostMatch
	snis  []*tls_route.SniMatch
	rules []rule
}

// rule is a rule of a route. Either http or grpc is set, without what depends
// on the parent, in routes of these kinds.
type rule struct {
	http *pb.HttpRoute_Rule
	grpc *pb.GrpcRoute_Rule
	// timeouts are zero where the parent's apply.
	timeouts timeouts
	backends []backendRef
}

// producersByParent has the parents in the route's own namespace, to all of
// whose clients the route applies (policy-outbound 4.1).
var producersByParent = state.NewIndex(0, "parent", func(r *route) []string {
	var keys []string
	for _, a := range r.attached {
		if key := a.String(); a.namespace == r.GetNamespace() && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
})

// consumers has, at the key anywhere, the routes that are attached to a parent
// in another namespace. They apply to clients of their own namespace alone.
var consumers = state.NewIndex(1, "consumer", func(r *route) []string {
	for _, a := range r.attached {
		if a.namespace != r.GetNamespace() {
			return []string{anywhere}
		}
	}
	return nil
})

const anywhere = "anywhere"

// attachedTo tells whether the route is one of the parent's port.
func (r *route) attachedTo(key parentKey, port uint16) bool {
	return slices.ContainsFunc(r.attached, func(a attachment) bool {
		return a.parentKey == key && (a.port == 0 || a.port == port)
	})
}

// before orders routes in a policy (policy-outbound 3.4).
func (r *route) before(other *route) int {
	if r.created.IsZero() != other.created.IsZero() {
		if r.created.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(
		r.created.Compare(other.created),
		strings.Compare(r.GetName(), other.GetName()),
		strings.Compare(r.GetNamespace(), other.GetNamespace()),
		strings.Compare(r.group, other.group),
		cmp.Compare(r.kind, other.kind),
	)
}

// form makes a route of source, or returns nil for one without a parent that
// has accepted it. convert fills in what the kind has; if it cannot, the last
// usable version stays.
func (f *former) form(group, kindName string, kind routeKind, source metav1.Object, spec gatewayv1.CommonRouteSpec, status gatewayv1.RouteStatus, previous *route, convert func(*route) error) *route {
	named := parents(source.GetNamespace(), spec.ParentRefs)
	if len(named) == 0 {
		return nil
	}
	r := &route{
		Object:   source,
		group:    group,
		kind:     kind,
		created:  source.GetCreationTimestamp().Time,
		attached: accepted(named, status.Parents),
		metadata: &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{
			Group: group, Kind: kindName, Namespace: source.GetNamespace(), Name: source.GetName(),
		}}},
	}
	if err := convert(r); err != nil {
		return f.unusable(r, kindName+"."+group, err.Error(), previous)
	}
	if len(r.attached) == 0 {
		return nil
	}
	return r
}

// unusable returns what stays in force instead of r: the form of the last
// version that could be used, unless that was of another object with the same
// name. What is wrong is said once, and again only when something else is.
func (f *former) unusable(r *route, kind, problem string, previous *route) *route {
	kept := &route{Object: r.Object, problem: problem}
	if previous != nil && previous.GetUID() == r.GetUID() {
		if previous.problem == problem {
			return previous
		}
		copied := *previous
		copied.problem = problem
		kept = &copied
	}
	f.log.Warn("object cannot be used for outbound policy", "kind", kind, "object", r.GetNamespace()+"/"+r.GetName(),
		"error", problem, "last_version_stays", len(kept.attached) > 0)
	return kept
}

func (f *former) formPolicyHTTPRoute(source *policyv1beta3.HTTPRoute, previous *route) *route {
	return f.form(apis.Group, "HTTPRoute", httpRoutes, source, source.Spec.CommonRouteSpec, source.Status.RouteStatus, previous,
		func(r *route) error { return f.convertHTTP(r, source.Spec) })
}

func (f *former) formHTTPRoute(source *gatewayv1.HTTPRoute, previous *route) *route {
	return f.form(apis.GatewayGroup, "HTTPRoute", httpRoutes, source, source.Spec.CommonRouteSpec, source.Status.RouteStatus, previous,
		func(r *route) error { return f.convertHTTP(r, source.Spec) })
}

func (f *former) formGRPCRoute(source *gatewayv1.GRPCRoute, previous *route) *route {
	return f.form(apis.GatewayGroup, "GRPCRoute", grpcRoutes, source, source.Spec.CommonRouteSpec, source.Status.RouteStatus, previous,
		func(r *route) error { return f.convertGRPC(r, source.Spec) })
}

func (f *former) formTLSRoute(source *gatewayv1alpha2.TLSRoute, previous *route) *route {
	return f.form(apis.GatewayGroup, "TLSRoute", tlsRoutes, source, source.Spec.CommonRouteSpec, source.Status.RouteStatus, previous,
		func(r *route) error {
			r.snis = snis(source.Spec.Hostnames)
			if len(source.Spec.Rules) != 1 {
				return errRules(len(source.Spec.Rules))
			}
			r.rules = []rule{connectionRule(source.Spec.Rules[0].BackendRefs)}
			return nil
		})
}

func (f *former) formTCPRoute(source *gatewayv1alpha2.TCPRoute, previous *route) *route {
	return f.form(apis.GatewayGroup, "TCPRoute", tcpRoutes, source, source.Spec.CommonRouteSpec, source.Status.RouteStatus, previous,
		func(r *route) error {
			if len(source.Spec.Rules) != 1 {
				return errRules(len(source.Spec.Rules))
			}
			r.rules = []rule{connectionRule(source.Spec.Rules[0].BackendRefs)}
			return nil
		})
}

func (f *former) convertHTTP(r *route, spec gatewayv1.HTTPRouteSpec) error {
	annotated, err := parseTimeouts(r.GetAnnotations())
	if err != nil {
		return err
	}
	if r.httpRetry, err = parseHTTPRetry(r.GetAnnotations()); err != nil {
		return err
	}
	r.hosts = routes.Hosts(spec.Hostnames)
	for i, source := range spec.Rules {
		converted, err := f.httpRule(r.group, source, annotated)
		if err != nil {
			return fmt.Errorf("spec.rules[%d].%w", i, err)
		}
		r.rules = append(r.rules, converted)
	}
	return nil
}

func (f *former) httpRule(group string, source gatewayv1.HTTPRouteRule, annotated timeouts) (rule, error) {
	matches, err := routes.HTTPMatches(source.Matches)
	if err != nil {
		return rule{}, err
	}
	filters, err := httpFilters(group, source.Filters)
	if err != nil {
		return rule{}, err
	}
	if source.Timeouts != nil {
		if annotated, err = ruleTimeouts(group, source.Timeouts, annotated); err != nil {
			return rule{}, err
		}
	}
	out := rule{
		http:     &pb.HttpRoute_Rule{Matches: matches, Filters: filters, AllowL5DRequestHeaders: f.allowL5dHeaders},
		timeouts: annotated,
	}
	for _, ref := range source.BackendRefs {
		out.backends = append(out.backends, newBackendRef(ref.BackendRef, func(b *backendRef) (err error) {
			b.httpFilters, err = httpFilters(group, ref.Filters)
			return err
		}))
	}
	return out, nil
}

// ruleTimeouts adds a rule's own request timeout to what annotations say of all
// rules (policy-outbound 6.2). The two groups write durations differently.
func ruleTimeouts(group string, source *gatewayv1.HTTPRouteTimeouts, annotated timeouts) (timeouts, error) {
	parse := parseSpan
	if group == apis.Group {
		parse = parseGoSpan
		if source.BackendRequest != nil {
			if _, err := parse(string(*source.BackendRequest)); err != nil {
				return annotated, fmt.Errorf("timeouts.backendRequest: %w", err)
			}
		}
	}
	if source.Request == nil {
		return annotated, nil
	}
	request, err := parse(string(*source.Request))
	switch {
	case err != nil && group == apis.Group:
		return annotated, fmt.Errorf("timeouts.request: %w", err)
	case err == nil && annotated.request == nil:
		annotated.request = (&request).unless0()
	}
	return annotated, nil
}

func (f *former) convertGRPC(r *route, spec gatewayv1.GRPCRouteSpec) error {
	annotated, err := parseTimeouts(r.GetAnnotations())
	if err != nil {
		return err
	}
	if r.grpcRetry, err = parseGRPCRetry(r.GetAnnotations()); err != nil {
		return err
	}
	r.hosts = routes.Hosts(spec.Hostnames)
	for i, source := range spec.Rules {
		matches, err := routes.GRPCMatches(source.Matches)
		if err != nil {
			return fmt.Errorf("spec.rules[%d].%w", i, err)
		}
		filters, err := grpcFilters(source.Filters)
		if err != nil {
			return fmt.Errorf("spec.rules[%d].%w", i, err)
		}
		converted := rule{
			grpc:     &pb.GrpcRoute_Rule{Matches: matches, Filters: filters, AllowL5DRequestHeaders: f.allowL5dHeaders},
			timeouts: annotated,
		}
		for _, ref := range source.BackendRefs {
			converted.backends = append(converted.backends, newBackendRef(ref.BackendRef, func(b *backendRef) (err error) {
				b.grpcFilters, err = grpcFilters(ref.Filters)
				return err
			}))
		}
		r.rules = append(r.rules, converted)
	}
	return nil
}

func errRules(n int) error { return fmt.Errorf("spec.rules: %d rules, must be 1", n) }

func connectionRule(refs []gatewayv1.BackendRef) rule {
	var out rule
	for _, ref := range refs {
		out.backends = append(out.backends, newBackendRef(ref, func(*backendRef) error { return nil }))
	}
	return out
}

// snis converts hostnames to what TLS clients ask for.
func snis(hostnames []gatewayv1.Hostname) []*tls_route.SniMatch {
	var out []*tls_route.SniMatch
	for _, host := range routes.Hosts(hostnames) {
		sni := &tls_route.SniMatch{}
		switch match := host.Match.(type) {
		case *http_route.HostMatch_Exact:
			sni.Match = &tls_route.SniMatch_Exact{Exact: match.Exact}
		case *http_route.HostMatch_Suffix_:
			sni.Match = &tls_route.SniMatch_Suffix_{Suffix: &tls_route.SniMatch_Suffix{ReverseLabels: match.Suffix.ReverseLabels}}
		}
		out = append(out, sni)
	}
	return out
}
